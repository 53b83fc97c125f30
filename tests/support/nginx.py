"""Where Debian's nginx is, if it is installed."""

import shutil

NGINX = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
