"""Stand-ins for the vendor's SDK: headers to compile a board project against, and a PC's versions of what it calls.

The headers are generated from our own subset of PMSIS, with the differences the vendor's have, plus the prototypes of
what only the board's main.c needs.
"""

from __future__ import annotations

from pathlib import Path

from support import GAP9

FAKE = Path(__file__).with_name("fake_sdk.c")

_DRIVERS = """
#ifndef SDK_DRIVERS_H
#define SDK_DRIVERS_H
#include <stdint.h>
typedef enum { PI_FREQ_DOMAIN_FC = 0, PI_FREQ_DOMAIN_CL = 1, PI_FREQ_DOMAIN_PERIPH = 2 } pi_freq_domain_e;
int32_t pi_freq_set(pi_freq_domain_e domain, uint32_t freq);
typedef enum { PI_PMU_VOLTAGE_DOMAIN_CHIP = 0 } pi_pmu_voltage_domain_e;
int pi_pmu_voltage_set(pi_pmu_voltage_domain_e domain, uint32_t voltage);
typedef enum { PI_PAD_089 = 89 } pi_pad_e;
typedef enum { PI_PAD_FUNC0 = 0, PI_PAD_FUNC1 = 1 } pi_pad_func_e;
void pi_pad_function_set(pi_pad_e pad, pi_pad_func_e function);
typedef enum { PI_GPIO_A89 = 89 } pi_gpio_e;
typedef enum { PI_GPIO_INPUT = 0, PI_GPIO_OUTPUT = 1 } pi_gpio_flags_e;
int pi_gpio_pin_configure(pi_gpio_e gpio, pi_gpio_flags_e flags);
int pi_gpio_pin_write(uint32_t pin, uint32_t value);
typedef enum { PI_PERF_CYCLES = 16 } pi_perf_event_e;
void pi_perf_conf(unsigned events);
void pi_perf_start(void);
unsigned int pi_perf_read(int id);
void pmsis_exit(int err);
#endif
"""

_BSP = {
    "bsp/bsp.h": """
#ifndef BSP_H
#define BSP_H
#include "pmsis.h"
struct pi_default_flash_conf { int unused; };
void pi_default_flash_conf_init(struct pi_default_flash_conf *conf);
#endif
""",
    "bsp/flash.h": """
#ifndef FLASH_H
#define FLASH_H
#include "pmsis.h"
int pi_flash_open(struct pi_device *device);
#endif
""",
    "bsp/fs.h": """
#ifndef FS_H
#define FS_H
#include "pmsis.h"
typedef enum { PI_FS_FLAGS_READ = 0, PI_FS_FLAGS_WRITE = 1 } pi_fs_flags_e;
struct pi_fs_conf { int type; struct pi_device *flash; };
typedef struct pi_fs_file_s pi_fs_file_t;
int32_t pi_fs_mount(struct pi_device *device);
pi_fs_file_t *pi_fs_open(struct pi_device *device, const char *file, int flags);
int32_t pi_fs_read(pi_fs_file_t *file, void *buffer, uint32_t size);
int32_t pi_fs_seek(pi_fs_file_t *file, unsigned int offset);
#endif
""",
    "bsp/fs/readfs.h": """
#ifndef READFS_H
#define READFS_H
#include "bsp/fs.h"
struct pi_readfs_conf { struct pi_fs_conf fs; };
void pi_readfs_conf_init(struct pi_readfs_conf *conf);
#endif
""",
}

_LIBC = {
    "stdio.h": "int printf(const char *format, ...) __attribute__((format(printf, 1, 2)));\n",
    "stdlib.h": "#include <stddef.h>\n",
    "string.h": "#include <stddef.h>\nvoid *memcpy(void *to, const void *from, size_t bytes);\n"
    "void *memset(void *to, int value, size_t bytes);\nint memcmp(const void *a, const void *b, size_t bytes);\n",
}
"""As little of a C library as the project may use."""

_RAM = "/* ---- external RAM (L3)"


def _subset() -> str:
    return (GAP9.folder / "hal" / "pmsis.h").read_text(encoding="utf-8")


def _replaced(text: str, old: str, new: str, count: int) -> str:
    assert text.count(old) == count, f"{old!r} is no longer {count} times in pmsis.h"
    return text.replace(old, new)


def write_vendor_headers(folder: Path) -> None:
    """Headers with the vendor's prototypes, for compiling alone, and a C library of a few functions."""
    text = _replaced(_subset(), "uintptr_t ext, uintptr_t loc", "uint32_t ext, uint32_t loc", 2)
    (line,) = [line for line in text.splitlines(keepends=True) if line.startswith("    uint32_t stack_size;")]
    text = _replaced(text, line, "", 1)  # on GAP9 a task cannot choose the controller's stack
    before, ram = text.split(_RAM)
    ram = f"#ifndef RAM_H\n#define RAM_H\n#include <stdint.h>\nstruct pi_device;\n{_RAM}{ram}"
    _write(folder, {"pmsis.h": before + "#endif\n" + _DRIVERS, "bsp/ram.h": ram, **_BSP, **_LIBC})


def write_pc_headers(folder: Path) -> None:
    """Headers for a program that runs on a PC: our host HAL's, and what ``fake_sdk.c`` adds."""
    order = "#define pi_l2_malloc sdk_l2_malloc\n#define pi_ram_alloc sdk_ram_alloc\n"
    order += "void *sdk_l2_malloc(int size);\nint sdk_ram_alloc(struct pi_device *device, uint32_t *addr, uint32_t size);\n"
    hidden = f"#ifdef PROJECT\n{order}#endif\n"
    texts = {"pmsis.h": _subset() + _DRIVERS + hidden, "bsp/ram.h": '#include "pmsis.h"\n', **_BSP}
    _write(folder, texts)


def pc_sources() -> list[Path]:
    """C files that a project is linked with on a PC."""
    return [FAKE, *sorted((GAP9.folder / "hal" / "host").glob("*.c"))]


def write_cmake_sdk(folder: Path) -> None:
    """A GAP_SDK_HOME whose CMake functions build for this PC."""
    write_pc_headers(folder / "include")
    hal = GAP9.folder / "hal"
    setup = f"""
function(readfs_add_files)
  cmake_parse_arguments(ARG "" "FLASH" "FILES" ${{ARGN}})
  foreach(file IN LISTS ARG_FILES)
    file(COPY ${{file}} DESTINATION ${{CMAKE_BINARY_DIR}}/readfs)
  endforeach()
endfunction()
macro(setupos target)
  find_package(Threads REQUIRED)
  add_library(sdk {" ".join(map(str, pc_sources()))})
  target_include_directories(sdk PRIVATE {folder}/include {hal}/host {hal} {GAP9.folder}/runtime ${{CMAKE_CURRENT_SOURCE_DIR}})
  target_compile_definitions(sdk PRIVATE NET_TRACE=1)
  target_include_directories(${{target}} PRIVATE {folder}/include)
  target_compile_definitions(${{target}} PRIVATE NET_TRACE=1 PROJECT=1)
  target_compile_options(${{target}} PRIVATE -Werror)
  target_link_libraries(${{target}} PRIVATE sdk Threads::Threads m)
endmacro()
"""
    _write(folder, {"utils/cmake/setup.cmake": setup})


def _write(folder: Path, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
