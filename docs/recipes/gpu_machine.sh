#!/usr/bin/env bash
# Install gpupipe from gpupipe.tar.gz on Ubuntu 24.04 with a driver, and train on the GPU. The argument is the extra.
set -euo pipefail
extra=${1:-cuda13}

sudo apt-get update
sudo apt-get install --yes python3-venv
tar --extract --file gpupipe.tar.gz
python3 -m venv gpu
gpu/bin/pip install "./gpupipe[$extra]"
gpu/bin/gpupipe doctor
cd gpupipe
../gpu/bin/gpupipe run configs/churn.yaml --device gpu --output runs/churn --resume
