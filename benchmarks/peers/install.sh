#!/bin/sh
# Peers for comparison, each in a virtual environment of its own beside ours: they pin what we do not.
#   sh benchmarks/peers/install.sh [DIRECTORY]        (default: .peers)
# Faraday comes with opensynth-energy, and brings torch: set PIP_INDEX_URL or PIP_EXTRA_INDEX_URL to an index of CPU
# wheels where CUDA must not be downloaded.  rampdemand reads its tables with a numpy below 2.
set -eu
place="${1:-.peers}"
python="${PYTHON:-python3}"
here="$(cd "$(dirname "$0")/../.." && pwd)"
mkdir -p "$place"

"$python" -m venv "$place/faraday"
"$place/faraday/bin/pip" install -c "$here/benchmarks/peers/faraday-constraints.txt" opensynth-energy scikit-learn

"$python" -m venv "$place/ramp"
"$place/ramp/bin/pip" install "numpy<2" rampdemand

"$python" -m venv "$place/richardson"
"$place/richardson/bin/pip" install richardsonpy

echo "peers are in $place: $place/faraday/bin/python benchmarks/peers/faraday.py --help"
