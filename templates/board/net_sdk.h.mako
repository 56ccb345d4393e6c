/* The headers of the vendor's SDK. The build includes this file before all others: `net.c` and `runtime/` ask for pmsis.h
 * alone, and in the SDK the external RAM is not part of it.
 */
#ifndef NET_SDK_H
#define NET_SDK_H

#include "pmsis.h"

#include "bsp/bsp.h"
#include "bsp/flash.h"
#include "bsp/fs.h"
#include "bsp/fs/readfs.h"
#include "bsp/ram.h"

#endif
