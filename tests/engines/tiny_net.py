"""A tiny network written by hand against the interface of emitted code: ``net.h``, ``net.c``, ``net_test.h`` and its data."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from deeploy_ext.codegen.program import EmittedProgram, Role, TensorEntry

NET_H = """
#ifndef NET_H
#define NET_H
#include "net_runtime.h"
#define NET_DATA_COUNT 2
#define NET_TENSOR_COUNT 7
#define NET_L1_CAPACITY 4096
extern const net_tensor_t net_tensors[NET_TENSOR_COUNT];
int net_init(void);
void net_close(void);
void net_write_part(const net_tensor_t *tensor, uint32_t offset, const void *source, uint32_t bytes);
void net_read_part(const net_tensor_t *tensor, uint32_t offset, void *destination, uint32_t bytes);
#define NET_FUSED_UPDATE 0
void net_step(const void *const data[NET_DATA_COUNT], bool reset);
void net_update(float learning_rate);
#endif
"""

NET_TEST_H = """
#define TEST_STEPS 2
#define TEST_ACCUMULATION 3
#define TEST_BATCHES 2
#define TEST_LEARNING_RATE 0.5f
"""

# loss = scale * label * sum(w * x); gradient of w; state counts: s = s / 2 + loss. Parameters live in L3.
NET_C = """
#include <string.h>
#include "net.h"
#include "net_trace.h"

enum { X, LABEL, LOSS, W, G, S, SCALE };
const net_tensor_t net_tensors[NET_TENSOR_COUNT] = {
    {"x", NET_DATA, NET_L2, 0, 32},      {"label", NET_DATA, NET_L2, 32, 4},    {"loss", NET_LOSS, NET_L2, 36, 4},
    {"w", NET_PARAMETER, NET_L3, 0, 32}, {"w", NET_GRADIENT, NET_L2, 40, 32},   {"s", NET_STATE, NET_L2, 72, 4},
    {"scale", NET_CONSTANT, NET_L2, 76, 4},
};
net_stats_t net_stats;

static struct pi_device cluster, ram;
static struct pi_cluster_conf cluster_conf;
static struct pi_default_ram_conf ram_conf;
static uint8_t *l1, *l2;
static uint32_t l3;
static bool is_reset;
static float rate;

int net_init(void)
{
    pi_cluster_conf_init(&cluster_conf);
    pi_open_from_conf(&cluster, &cluster_conf);
    pi_default_ram_conf_init(&ram_conf);
    pi_open_from_conf(&ram, &ram_conf);
    if (pi_cluster_open(&cluster) || pi_ram_open(&ram) || pi_ram_alloc(&ram, &l3, 32))
        return -1;
    l1 = pi_cl_l1_malloc(&cluster, 256);
    l2 = pi_l2_malloc(128);
    return l1 && l2 ? 0 : -1;
}

void net_close(void)
{
    pi_l2_free(l2, 128);
    pi_cl_l1_free(&cluster, l1, 256);
    pi_ram_free(&ram, l3, 32);
    pi_ram_close(&ram);
    pi_cluster_close(&cluster);
}

void net_write_part(const net_tensor_t *tensor, uint32_t offset, const void *source, uint32_t bytes)
{
    if (tensor->level == NET_L3)
        pi_ram_write(&ram, l3 + tensor->address + offset, (void *)(uintptr_t)source, bytes);
    else
        memcpy(l2 + tensor->address + offset, source, bytes);
}

void net_read_part(const net_tensor_t *tensor, uint32_t offset, void *destination, uint32_t bytes)
{
    if (tensor->level == NET_L3)
        pi_ram_read(&ram, l3 + tensor->address + offset, destination, bytes);
    else
        memcpy(destination, l2 + tensor->address + offset, bytes);
}

/* x 32, w 32, g 32, label 4, loss 4, s 4, scale 4 in L1 */
static void step_kernel(float *t)
{
    float sum = 0.0f;
    int32_t label;
    memcpy(&label, &t[24], 4);
    for (int i = 0; i < 8; i++)
        sum += t[8 + i] * t[i];
    t[25] = t[27] * (float)label * sum;
    t[26] = t[26] / 2.0f + t[25];
    for (int i = 0; i < 8; i++)
        t[16 + i] = (is_reset ? 0.0f : t[16 + i]) + t[27] * (float)label * t[i];
}

static void move(uint32_t ext, uint32_t loc, uint32_t bytes, pi_cl_dma_dir_e dir)
{
    pi_cl_dma_cmd_t cmd;
    pi_cl_dma_cmd((uintptr_t)(l2 + ext), (uintptr_t)(l1 + loc), bytes, dir, &cmd);
    pi_cl_dma_cmd_wait(&cmd);
}

static void step(void *arg)
{
    (void)arg;
    bool is_first = pi_core_id() == 0;
    if (is_first) {
        pi_cl_ram_req_t req;
        pi_cl_ram_read(&ram, l3, l2 + 80, 32, &req);
        move(0, 0, 32, PI_CL_DMA_DIR_EXT2LOC);
        pi_cl_ram_read_wait(&req);
        move(80, 32, 32, PI_CL_DMA_DIR_EXT2LOC);
        move(40, 64, 32, PI_CL_DMA_DIR_EXT2LOC);
        move(32, 96, 4, PI_CL_DMA_DIR_EXT2LOC);
        move(72, 104, 8, PI_CL_DMA_DIR_EXT2LOC);
        void *const blocks[] = {l1};
        const uint32_t bytes[] = {112};
        net_trace_kernel_begin(1, blocks, bytes);
    }
    pi_cl_team_barrier();
    if (pi_core_id() == 1)
        step_kernel((float *)(void *)l1);
    /*PLANT*/
    pi_cl_team_barrier();
    if (is_first) {
        net_trace_kernel_end();
        net_stats.tiles++;
        move(40, 64, 32, PI_CL_DMA_DIR_LOC2EXT);
        move(36, 100, 4, PI_CL_DMA_DIR_LOC2EXT);
        move(72, 104, 4, PI_CL_DMA_DIR_LOC2EXT);
    }
}

static void update(void *arg)
{
    (void)arg;
    float *w = (float *)(void *)l1;
    pi_cl_ram_req_t req;
    if (pi_core_id() == 0) {
        pi_cl_ram_read(&ram, l3, l2 + 80, 32, &req);
        pi_cl_ram_read_wait(&req);
        move(80, 0, 32, PI_CL_DMA_DIR_EXT2LOC);
        move(40, 32, 32, PI_CL_DMA_DIR_EXT2LOC);
    }
    pi_cl_team_barrier();
    w[pi_core_id()] -= rate * w[8 + pi_core_id()];
    pi_cl_team_barrier();
    if (pi_core_id() == 0) {
        move(80, 0, 32, PI_CL_DMA_DIR_LOC2EXT);
        pi_cl_ram_write(&ram, l3, l2 + 80, 32, &req);
        pi_cl_ram_write_wait(&req);
    }
}

static void controller(void *entry) { pi_cl_team_fork(8, *(void (**)(void *))entry, NULL); }

static void run(void (*entry)(void *))
{
    struct pi_cluster_task task;
    pi_cluster_send_task_to_cl(&cluster, pi_cluster_task(&task, controller, &entry));
}

void net_step(const void *const data[NET_DATA_COUNT], bool reset)
{
    (void)data; /* the driver has filled both */
    is_reset = reset;
    run(step);
}

void net_update(float learning_rate)
{
    rate = learning_rate;
    run(update);
}
"""

FLOAT, INT = np.dtype(np.float32), np.dtype(np.int32)
TENSORS = (
    TensorEntry("x", Role.DATA, FLOAT, (2, 4)),
    TensorEntry("label", Role.DATA, INT, (1,)),
    TensorEntry("loss", Role.LOSS, FLOAT, ()),
    TensorEntry("w", Role.PARAMETER, FLOAT, (4, 2)),
    TensorEntry("w", Role.GRADIENT, FLOAT, (4, 2)),
    TensorEntry("s", Role.STATE, FLOAT, ()),
    TensorEntry("scale", Role.CONSTANT, FLOAT, (1,)),
)
X = np.arange(16, dtype=np.float32).reshape(2, 8) / 8 - 1
LABELS = np.array([2, -1], np.int32)
W = np.linspace(-1, 1, 8, dtype=np.float32)
SCALE, STATE = np.float32(0.25), np.float32(3)


def write_program(folder: Path) -> EmittedProgram:
    """Writes the network into a new folder."""
    folder.mkdir()
    (folder / "net.h").write_text(NET_H)
    (folder / "net_test.h").write_text(NET_TEST_H)
    (folder / "net.c").write_text(NET_C)
    (folder / "weights.bin").write_bytes(W.tobytes() + STATE.tobytes() + SCALE.tobytes())
    (folder / "data.bin").write_bytes(b"".join(x.tobytes() + label.tobytes() for x, label in zip(X, LABELS, strict=True)))
    return EmittedProgram(folder, TENSORS, ("net.c",), (".",), steps=2, accumulation=3, batches=2, cores=8)


def plant(program: EmittedProgram, old: str, new: str) -> None:
    """Changes ``net.c``; ``/*PLANT*/`` stands inside the kernel of a step, where every worker passes."""
    file = program.directory / "net.c"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
