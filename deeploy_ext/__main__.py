"""``python -m deeploy_ext`` is ``deeployRunner``."""

import sys

from deeploy_ext.cli import main

sys.exit(main())
