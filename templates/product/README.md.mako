# Training of ${md_code(task.name)} in C

Written by `deeployRunner` after the numbers of this program had agreed with the golden run. This folder needs nothing from
outside.

${"##"} Build and run on a PC

With a C11 compiler and threads (GCC or Clang), in this folder:

    ${command}
    ./train

or with CMake:

    cmake -B build && cmake --build build
    build/train

It trains ${steps(task.spec.steps, "step")} of ${steps(task.spec.accumulation, "mini-batch", "mini-batches")} with learning rate ${f"{task.spec.learning_rate:g}"}, saves what it has learned to
`state.bin` and loads it again. The losses:

% for index, loss in enumerate(losses):
    step ${index // task.spec.accumulation + 1} mini-batch ${index % task.spec.accumulation + 1} loss ${f"{loss:.9g}"}
% endfor

${"##"} Files

| file | what |
|---|---|
% for name, what in files:
| `${name}` | ${what} |
% endfor

${"##"} Your own data

`data.bin` is any number of mini-batches, one after the other; the program begins again when it has used all. Each is
${f"{sum(row[-1] for row in data):,}"} bytes, the tensors below in this order: raw, little-endian, without padding.

| tensor | type | shape | bytes |
|---|---|---|---|
% for name, dtype, shape, size in data:
| ${name} | ${dtype} | ${shape} | ${f"{size:,}"} |
% endfor

With numpy, `array.astype("<f4").tobytes()` is such a tensor (`"<i4"` for int32). For other steps or another rate, change
the constants at the top of `main.c`.

`weights.bin` holds the initial values in the same form:

| tensor | role | type | shape | offset |
|---|---|---|---|---|
% for name, role, dtype, shape, offset in weights:
| ${name} | ${role} | ${dtype} | ${shape} | ${f"{offset:,}"} |
% endfor

${"##"} In your firmware

`net.h` is the interface: ${calls}.

`net.c` and `runtime/` call PMSIS by the names and with the operands of the vendor's SDK; `hal/` declares that subset and
implements it for a PC. For a chip compile `net.c` and `runtime/` with `-I. -Iruntime` and the SDK's own `pmsis.h`, without
`hal/` and without `-DNET_TRACE=1`, and put the weights and the data where your program can read them. This version of
deeploy_ext has been tried on PCs and on GVSoC's simulated cluster, not on a chip.

The plan takes ${memory}.
