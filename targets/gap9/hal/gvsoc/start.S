/* Vectors, reset and trap entry of all cores. All start here and part by mhartid. */
#include "registers.h"

    .section .vectors, "ax"
    .option norvc
    .globl hal_vectors
    .balign 256
hal_vectors:
    .rept 35 /* 0: exceptions; the others are interrupts, which are never enabled */
    j trap
    .endr

    .globl _start
_start:
    la t0, hal_vectors
    csrw mtvec, t0
    csrr t0, mhartid
    li t1, FC_HART
    beq t0, t1, start_fc

    /* A cluster core: t0 is its number. The controller's stack lies above those of the workers. */
    la sp, hal_worker_stacks
    la t1, hal_worker_stack_bytes
    addi t2, t0, 1
    mul t2, t2, t1
    add sp, sp, t2
    li t1, CONTROLLER_CORE
    bne t0, t1, 1f
    la sp, hal_controller_stack_top
1:
    mv a0, t0
    j hal_cluster_main

start_fc:
    li t0, FC_ICACHE_ENABLE
    li t1, 1
    sw t1, 0(t0)
    la sp, hal_fc_stack_top
    la t0, hal_bss
    la t1, hal_bss_end
    jal clear
    la t0, hal_driver_bss
    la t1, hal_driver_bss_end
    jal clear
    la t0, hal_l1_data
    la t1, hal_l1_data_end
    jal clear
    jal hal_fc_main
2:
    j 2b

clear: /* words [t0, t1) */
    bgeu t0, t1, 3f
    sw zero, 0(t0)
    addi t0, t0, 4
    j clear
3:
    ret

/* The first core to come reports on a stack of its own, since the one in use may be the trouble. */
trap:
    csrw mscratch, sp
    la sp, hal_trap_lock
    lui t0, %hi(L1_TEST_AND_SET)
    add sp, sp, t0
    lw sp, 0(sp)
    bnez sp, 4f
    csrr a0, mhartid
    csrr a1, mepc
    csrr a2, mcause
    csrr a3, mscratch
    mv a4, ra
    la sp, hal_trap_stack_top
    j hal_trap
4:
    wfi
    j 4b
