"""Where CI runs the tests: what elsewhere is skipped for want of something fails there."""

import os

IS_CI = os.environ.get("CI") == "true"
