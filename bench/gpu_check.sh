#!/usr/bin/env sh
# Everything that only a GPU can show, in one command and without network: the GPU tests, the ceilings,
# Lambda's study and all networks at a small size. Records and the log go to build/gpu-check/ (or $OUT).
set -eu
cd "$(dirname "$0")/.."
out=${OUT:-build/gpu-check}
mkdir -p "$out"
if [ -x .venv/bin/python ]; then python=.venv/bin/python; else python=${PYTHON:-python3}; fi
export PYTHONPATH="$PWD/src${PYTHONPATH:+:$PYTHONPATH}"
"$python" -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' || {
	echo "make gpu-check needs an NVIDIA GPU and a PyTorch that sees it; this Python ($python) does not" >&2
	exit 5
}
accelmark() { "$python" -m accelmark.cli.main "$@"; }
status=0
accelmark doctor || status=$?
"$python" -m pytest -m gpu -p no:cacheprovider || status=$?
accelmark ceiling --out "$out/records" || status=$?
accelmark run lambda --size tiny --time-budget 5s --out "$out/records" || status=$?
accelmark run resnet50-v1.5 --precision fp32,tf32,fp16,bf16 --batch-size max --time-budget 10s --out "$out/records" || status=$?
accelmark run resnet50-v1.5 --precision fp16 --engine compile --batch-size 64 --time-budget 10s --out "$out/records" || status=$?
accelmark run vision language --size tiny --precision fp32,tf32,fp16,bf16 --time-budget 3s --out "$out/records" || status=$?
accelmark run inference --size tiny --engine eager,compile,onnxruntime,tensorrt --precision fp32,tf32,fp16,int8 --time-budget 3s --out "$out/records" || status=$?
accelmark run resnet50-v1.5 --scenario inference --partitions 2 --time-budget 10s --out "$out/records" || status=$?
accelmark show "$out/records"
exit "$status"
