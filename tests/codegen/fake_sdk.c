/* A PC's versions of what the board's main.c calls beyond the HAL. Files come from the folder in FLASH_DIR of the
 * environment. What the program does to the chip is told on stderr, a line each. Every reading of the timer is
 * 3,000,000,000 cycles after the one before.
 */
#include <stdio.h>
#include <stdlib.h>

#include "bsp/bsp.h"
#include "bsp/flash.h"
#include "bsp/fs/readfs.h"
#include "hal_host.h"
#include "net.h"

void *sdk_l2_malloc(int size);
int sdk_ram_alloc(struct pi_device *device, uint32_t *addr, uint32_t size);

__attribute__((constructor)) static void configure(void)
{
    const hal_host_config_t memories = {
        .l1_capacity = NET_L1_CAPACITY, .l2_capacity = NET_L2_CAPACITY, .l3_capacity = NET_L3_CAPACITY};
    hal_host_configure(&memories);
}

void *sdk_l2_malloc(int size)
{
    fprintf(stderr, "L2\n");
    return pi_l2_malloc(size);
}

int sdk_ram_alloc(struct pi_device *device, uint32_t *addr, uint32_t size)
{
    fprintf(stderr, "L3\n");
    return pi_ram_alloc(device, addr, size);
}

int32_t pi_freq_set(pi_freq_domain_e domain, uint32_t freq)
{
    static const char *const names[] = {"FC", "CL", "PERIPH"};
    fprintf(stderr, "%s %u Hz\n", names[domain], (unsigned)freq);
    return 0;
}

int pi_pmu_voltage_set(pi_pmu_voltage_domain_e domain, uint32_t voltage)
{
    (void)domain;
    fprintf(stderr, "%u mV\n", (unsigned)voltage);
    return 0;
}

void pi_pad_function_set(pi_pad_e pad, pi_pad_func_e function) { fprintf(stderr, "pad %d function %d\n", pad, function); }

int pi_gpio_pin_configure(pi_gpio_e gpio, pi_gpio_flags_e flags)
{
    fprintf(stderr, "pin %d %s\n", gpio, flags == PI_GPIO_OUTPUT ? "output" : "input");
    return 0;
}

int pi_gpio_pin_write(uint32_t pin, uint32_t value)
{
    fprintf(stderr, "pin %u = %u\n", (unsigned)pin, (unsigned)value);
    return 0;
}

void pi_perf_conf(unsigned events) { fprintf(stderr, "count %x\n", events); }

void pi_perf_start(void) {}

unsigned int pi_perf_read(int id)
{
    static uint32_t now = 4000000000u;
    fprintf(stderr, "timer %d\n", id);
    return now += 3000000000u;
}

void pmsis_exit(int err)
{
    fflush(stdout);
    _Exit(err);
}

void pi_default_flash_conf_init(struct pi_default_flash_conf *conf) { conf->unused = 0; }

int pi_flash_open(struct pi_device *device)
{
    (void)device;
    return 0;
}

void pi_readfs_conf_init(struct pi_readfs_conf *conf) { conf->fs.flash = NULL; }

int32_t pi_fs_mount(struct pi_device *device)
{
    const struct pi_readfs_conf *const conf = device->config;
    return conf->fs.flash ? 0 : -1;
}

pi_fs_file_t *pi_fs_open(struct pi_device *device, const char *file, int flags)
{
    char path[4096];
    (void)device;
    snprintf(path, sizeof path, "%s/%s", getenv("FLASH_DIR"), file);
    fprintf(stderr, "open %s\n", file);
    return flags == PI_FS_FLAGS_READ ? (pi_fs_file_t *)fopen(path, "rb") : NULL;
}

int32_t pi_fs_read(pi_fs_file_t *file, void *buffer, uint32_t size)
{
    return (int32_t)fread(buffer, 1, size, (FILE *)file);
}

int32_t pi_fs_seek(pi_fs_file_t *file, unsigned int offset) { return fseek((FILE *)file, offset, SEEK_SET); }
