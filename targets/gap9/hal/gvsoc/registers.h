/* Addresses and bits of the simulated chip that the HAL uses; for C and assembly. Values as GVSoC's pulp-open models them. */
#ifndef REGISTERS_H
#define REGISTERS_H

#define FC_HART 0x3E0      /* mhartid of the fabric controller; that of cluster core i is i */
#define CONTROLLER_CORE 8  /* the cluster core that runs tasks and forks teams */

#define L1_BASE 0x10000000
#define L1_TEST_AND_SET 0x00100000 /* added to an L1 address: a load also writes ones */

/* Cluster control and instruction cache. */
#define CLUSTER_FETCH_ENABLE 0x10200008
#define CLUSTER_BOOT_ADDRESS 0x10200040 /* one word per core */
#define CLUSTER_ICACHE_ENABLE 0x10201400
#define FC_ICACHE_ENABLE 0x1A108800

/* Event unit of the calling core, and its event lines. */
#define EU_MASK 0x10204000
#define EU_WAIT_CLEAR 0x1020403C
#define EU_BARRIER(b) (0x10204200 + 0x20 * (b))
#define EU_BARRIER_TRIGGER_MASK 0x00
#define EU_BARRIER_TARGET_MASK 0x0C
#define EU_BARRIER_TRIGGER_WAIT_CLEAR 0x1C
#define EVENT_TASK 0 /* software event: the fabric controller has a task */
#define EVENT_DMA 8
#define EVENT_BARRIER 16

/* The same unit from outside: writing a mask of cores raises software event e there. */
#define EU_TRIGGER_FROM_OUTSIDE(e) (0x10200E00 + 4 * (e))

/* DMA of the calling core: reading the queue allocates a counter, then the words of a command are written to it. */
#define DMA_QUEUE 0x10204400
#define DMA_STATUS 0x10204404 /* a bit per counter that is busy; writing a bit frees the counter */
#define DMA_TO_L1 (1 << 17)
#define DMA_INCREMENT (1 << 18)
#define DMA_2D (1 << 19)
#define DMA_EVENT (1 << 20)

/* Interrupt controller and timer of the fabric controller. Interrupts stay disabled: they only end a wfi. */
#define ITC_MASK 0x1A109800
#define ITC_STATUS_SET 0x1A109810
#define ITC_STATUS_CLEAR 0x1A109814
#define IRQ_TASK_DONE 0
#define IRQ_TIMER 10
#define TIMER_CONFIG 0x1A10B000
#define TIMER_COMPARE 0x1A10B010
#define TIMER_ENABLE_WITH_IRQ 0x17 /* enable, reset, interrupt, restart at compare */

/* uDMA: HyperBus channel 0 and the registers that all channels share. */
#define UDMA_CLOCK_GATES 0x1A102000
#define HYPER_RX_ADDRESS 0x1A102480
#define HYPER_RX_SIZE 0x1A102484
#define HYPER_RX_CONFIG 0x1A102488
#define HYPER_TX_ADDRESS 0x1A10248C
#define HYPER_TX_SIZE 0x1A102490
#define HYPER_TX_CONFIG 0x1A102494
#define HYPER_SETUP 0x1A102498
#define HYPER_RAM_ADDRESS 0x1A10249C
#define HYPER_STATUS 0x1A1024A4
#define HYPER_PAGE_BOUND 0x1A102880
#define HYPER_CHIP_SELECT 0x1A1028A0
#define HYPER_SETUP_WRITE 1
#define HYPER_SETUP_READ 5
#define HYPER_START 0x14 /* enable, 32-bit words */
#define HYPER_QUEUE 8    /* transfers that the channel holds */

#define SIMULATION_END 0x1A1040A0 /* 0x80000000 | exit status */

#endif
