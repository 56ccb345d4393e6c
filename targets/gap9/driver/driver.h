/* What the test driver needs of an engine: files and words. */
#ifndef DRIVER_H
#define DRIVER_H

#include <stdbool.h>
#include <stdint.h>

/* One line that says what is wrong, then exit status 71. Understands %s, %d, %u and %lu. */
_Noreturn void driver_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* One `key value` line. */
void driver_print(const char *key, uint64_t value);

/* Opens the named file of the data, which must have exactly `bytes` bytes. Reading goes on from where it stopped, or from
 * the place that was sought; one file at a time.
 */
void driver_open(const char *name, uint32_t bytes);
void driver_seek(uint32_t position);
void driver_read(void *data, uint32_t bytes);
void driver_close(void);

/* Appends to the output. `data` is any memory that the calling core can read. */
void driver_write(const void *data, uint32_t bytes);

/* Counting starts anew with every round; only the last one is printed. */
void driver_reset_counters(void);

/* After an entry has run. */
typedef enum { DRIVER_STEP, DRIVER_UPDATE, DRIVER_INFER, DRIVER_ENTRIES } driver_entry_t;
void driver_count(driver_entry_t entry);

/* Trains `rounds` times; see driver.c. */
void driver_run(unsigned long rounds);

#endif
