# What needs a GPU and nvcc. Both targets fail, and say why, where there is none.
.PHONY: test-gpu bench-gpu

test-gpu: install
	HIPRESS_REQUIRE_GPU=1 $(BIN)/python -m pytest tests/compll/cuda/test_gpu.py

bench-gpu: install
	$(BIN)/python -m benchmarks.codec_gpu --json build/codec_gpu.json
