# Training of ${md_code(task.name)} on a GAP9 board

A CMake project for the vendor's SDK (gap_sdk for GAP9, version 5), written by `deeployRunner --engine board`.
**Nothing of it has been run on a chip or built with the SDK.** It was generated from a plan that passed the static check;
deeploy_ext's own tests compile such a project against stub headers with the SDK's prototypes, and run it on a PC against
stand-ins for the SDK. To prove the network's numbers on a PC first: the same command with `--engine host`.

${"##"} Build and run

Source the configuration of your board in the SDK, then in this folder:

    cmake -B build
    cmake --build build --target run

This also writes the files of `flash/` into the external flash. Text comes through the UART. It trains
${steps(task.spec.steps, "step")} of ${steps(task.spec.accumulation, "mini-batch", "mini-batches")} and prints per mini-batch

    step 1 mini-batch 1 loss DECIMAL (bits HEX) golden DECIMAL (bits HEX) right

then the cycles of each entry and, in the last two lines,

    Losses: 0 out of ${task.spec.mini_batches}
    PASS

or `FAIL`. A loss is right within ${f"{task.spec.tolerance:g}"} of max(1, |golden|). Cycles are those of the cluster's timer from before the FC
sends an entry until after it has returned, added up in 64 bits; a single entry must take fewer than 2^32
(${f"{2**32 / 1e6 / points[0].mhz:.1f}"} s at ${points[0].mhz} MHz). Losses are golden to the tolerance, not to the bit: a chip may fuse multiply and add.

| option of `cmake -B build` | what |
|---|---|
| `-DNET_MHZ=${points[0].mhz}` | clock of FC, periphery and cluster, with its supply voltage: ${", ".join(f"{p.mhz} MHz at {p.millivolts} mV" for p in points)} |
| `-DNET_POWER_PIN=ON` | GPIO ${gpio} is high while an entry runs on the cluster and low while data is loaded, for a power meter |

With a Nordic PPK2 on the board, the SDK's `gapy` records power over the time that the pin is high: `--power --power-tool ppk2`.

${"##"} Memory

The plan takes ${memory}. L1 holds the controller's stack (${target.controller_stack} bytes),
${plan.options["cores"]} workers' stacks (${target.worker_stack} bytes each) and the network. In L2 the SDK's operating system and drivers, the
mounted file system and ${f"{chunk:,}"} bytes for loading must find room beside the network; how much they take is not known
here. If `net_init` fails on the board, plan with less: `--l2` and `--l1`.

${"##"} Files

| file | what |
|---|---|
% for name, what in files:
| `${name}` | ${what} |
% endfor

The files of `flash/` are raw, little-endian and without padding: `weights.bin` in the order of `net_tensors` (parameters,
states and constants), `data.bin` mini-batch after mini-batch, each with the tensors below, `golden.bin` one float per
mini-batch that is trained.

| tensor | type | shape | bytes |
|---|---|---|---|
% for name, dtype, shape, size in data:
| ${name} | ${dtype} | ${shape} | ${f"{size:,}"} |
% endfor

${"##"} What is not verified

These facts come from public sources and were not tried: the names of the settings in `sdk.config`, of `setupos` and
`readfs_add_files` in `CMakeLists.txt`, and of what `main.c` calls; that the SDK takes the workers' stacks from L1; that
`pi_pmu_voltage_set` takes millivolts; that the UART follows the periphery's clock when that is set before the first print;
the pin; the operating points.
