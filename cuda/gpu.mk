# gpu.mk - how cuda/ is built: sets GPU_OBJ and GPU_LIBS for the builder.
WITH_CUDA ?= auto
NVCC ?= $(shell command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null)

ifeq ($(WITH_CUDA),auto)
  WITH_CUDA_NOW := $(if $(NVCC),yes,no)
else
  WITH_CUDA_NOW := $(WITH_CUDA)
endif

ifeq ($(WITH_CUDA_NOW),yes)
  ifeq ($(NVCC),)
    $(error WITH_CUDA=yes, but there is no nvcc: give NVCC=/path/to/nvcc, or WITH_CUDA=no)
  endif
  # A machine-code image for each of these that this nvcc knows, and PTX of the newest.
  CUDA_ARCHS ?= 75 80 86 89 90 100 120
  CUDA_KNOWN := $(shell $(NVCC) --list-gpu-code 2>/dev/null | sed -n 's/^sm_\([0-9]*\)$$/\1/p')
  CUDA_USE := $(filter $(CUDA_KNOWN),$(CUDA_ARCHS))
  ifeq ($(CUDA_USE),)
    $(error $(NVCC) knows none of CUDA_ARCHS='$(CUDA_ARCHS)', only $(CUDA_KNOWN))
  endif
  GENCODE := $(foreach a,$(CUDA_USE),-gencode arch=compute_$(a),code=sm_$(a)) \
             -gencode arch=compute_$(lastword $(CUDA_USE)),code=compute_$(lastword $(CUDA_USE))
  NVCC_FLAGS = -O3 -std=c++17 -Isrc -lineinfo $(GENCODE) -Xcompiler -fPIC,-Wall $(NVCC_EXTRA)
  GPU_SRC = $(wildcard cuda/*.cu)
  GPU_OBJ = $(patsubst cuda/%.cu,build/cuda/%.o,$(GPU_SRC))
  CUDA_HOME ?= $(patsubst %/bin/nvcc,%,$(realpath $(NVCC)))
  GPU_LIBS = -L$(CUDA_HOME)/lib64 -lcudart_static -lstdc++
build/cuda/%.o: cuda/%.cu $(wildcard cuda/*.cuh cuda/*.h src/graph/*.h)
	@mkdir -p $(@D)
	$(NVCC) $(NVCC_FLAGS) -c -o $@ $<

# The kernels' tests (make gpu-check), linked with the kernels alone.
CHECK_OBJ = build/cuda/gpu_check.o build/cuda/gpu_builds.o
$(CHECK_OBJ): build/cuda/%.o: test/gpu/%.cu test/gpu/gpu_check.h $(wildcard cuda/*.cuh cuda/*.h)
	@mkdir -p $(@D)
	$(NVCC) $(NVCC_FLAGS) -c -o $@ $<
build/gpu_check: $(CHECK_OBJ) $(GPU_OBJ)
	$(NVCC) $(NVCC_FLAGS) -o $@ $^
else
  GPU_OBJ = build/cuda/stub.o
  GPU_LIBS =
build/cuda/stub.o: cuda/stub.c cuda/gpu.h $(wildcard src/graph/*.h)
	@mkdir -p $(@D)
	@echo "grnnd: no CUDA: the builder gets the CPU path only"
	$(CC) -O2 -g -Wall -Wextra -Isrc -c -o $@ $<
endif
