# gpu.mk - builds cuda/ and test/gpu; sets GPU_OBJ and GPU_LIBS for the builder.
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
  # Machine code for each of these that this nvcc knows, and PTX of the newest.  Unless they are given, they
  # are the GPUs of this machine, or else one for each generation: 80 also runs on 86 and 89, 100 on 103.
  CUDA_HERE := $(shell nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | \
    sed -n 's/^\([89]\|1[0-9]\)\.\([0-9]\)$$/\1\2/p' | sort -nu)
  CUDA_ARCHS ?= $(or $(CUDA_HERE),80 90 100 120)
  CUDA_KNOWN := $(shell $(NVCC) --list-gpu-code 2>/dev/null | sed -n 's/^sm_\([0-9]*\)$$/\1/p')
  CUDA_USE := $(filter $(CUDA_KNOWN),$(CUDA_ARCHS))
  ifeq ($(CUDA_USE),)
    $(error $(NVCC) knows none of CUDA_ARCHS='$(CUDA_ARCHS)', only $(CUDA_KNOWN))
  endif
  GENCODE := $(foreach a,$(CUDA_USE),-gencode arch=compute_$(a),code=sm_$(a)) \
             -gencode arch=compute_$(lastword $(CUDA_USE)),code=compute_$(lastword $(CUDA_USE))
  comma = ,
  space := $() $()
  NVCC_FLAGS = -O3 -std=c++17 -I. -Isrc -lineinfo $(GENCODE) \
    -Xcompiler $(subst $(space),$(comma),$(strip -fPIC -Wall $(HARDENING))) $(NVCC_EXTRA)
  # Architectures of one file that nvcc compiles at a time, beside what make runs at a time.
  NVCC_THREADS ?= 4
  CUDA_HOME ?= $(patsubst %/bin/nvcc,%,$(realpath $(NVCC)))
  GPU_OBJ = build/cuda/kernels.a
  PAPER_GPU_OBJ = build/cuda/paper.a
  GPU_LIBS = -L$(CUDA_HOME)/lib64 -lcudart_static -lstdc++

# These take the longest, tile.cu as long as most others together, so they are begun first.
SLOW_SRC = cuda/tile.cu cuda/initial_graph.cu cuda/project.cu cuda/product.cu
KERNEL_SRC = $(SLOW_SRC) $(filter-out $(SLOW_SRC),$(wildcard cuda/*.cu))
KERNEL_OBJ = $(KERNEL_SRC:cuda/%.cu=build/cuda/%.o)
CHECK_SRC = $(wildcard test/gpu/gpu_*.cu)
CHECK_OBJ = $(CHECK_SRC:test/gpu/%.cu=build/cuda/test/%.o)
CUDA_HEADERS = $(wildcard cuda/*.cuh cuda/*.h cuda/paper/*.cuh cuda/paper/*.h src/memory/*.h src/space/*.h)
PAPER_KERNEL_OBJ = $(patsubst cuda/%.cu,build/cuda/%.o,$(wildcard cuda/paper/*.cu))

# $(call compile,OBJECTS): by a make of its own, on all cores where this one got no -j.
compile = +@$(MAKE) -f cuda/gpu.mk --no-print-directory HARDENING='$(HARDENING)' \
	$(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$(shell nproc)) $1
# V=1 shows the commands.
NVCC_OBJECT = $(if $(V),,@echo "grnnd: nvcc $< ($(CUDA_USE))"; )$(NVCC) -t $(NVCC_THREADS) $(NVCC_FLAGS) -c -o $@ $<

build/cuda/kernels.a: $(KERNEL_SRC) $(CUDA_HEADERS)
	$(call compile,$(KERNEL_OBJ))
	@rm -f $@
	@$(AR) rcs $@ $(KERNEL_OBJ)
build/cuda/paper.a: $(wildcard cuda/paper/*.cu) $(CUDA_HEADERS)
	$(call compile,$(PAPER_KERNEL_OBJ))
	@rm -f $@
	@$(AR) rcs $@ $(PAPER_KERNEL_OBJ)
build/cuda/%.o: cuda/%.cu $(CUDA_HEADERS)
	@mkdir -p $(@D)
	$(NVCC_OBJECT)

# The kernels' tests (make gpu-check), linked with the kernels alone.
build/gpu_check: $(CHECK_SRC) test/gpu/gpu_check.h test/unit/paper_reference.h build/cuda/kernels.a build/cuda/paper.a
	$(call compile,$(CHECK_OBJ))
	@$(NVCC) $(NVCC_FLAGS) -o $@ $(CHECK_OBJ) build/cuda/kernels.a build/cuda/paper.a
build/cuda/test/%.o: test/gpu/%.cu test/gpu/gpu_check.h test/unit/paper_reference.h $(CUDA_HEADERS)
	@mkdir -p $(@D)
	$(NVCC_OBJECT)
else
  GPU_OBJ = build/cuda/stub.o
  PAPER_GPU_OBJ = build/cuda/paper/stub.o
  GPU_LIBS =
build/cuda/paper/stub.o: cuda/paper/stub.c cuda/paper/paper.h $(wildcard src/memory/*.h src/space/*.h)
	@mkdir -p $(@D)
	$(CC) -O2 -g -Wall -Wextra -Isrc -I. -c -o $@ $<
endif

# The builder's side of a GPU, for programs without kernels.
build/cuda/stub.o: cuda/stub.c cuda/gpu.h $(wildcard src/memory/*.h src/space/*.h)
	@mkdir -p $(@D)
	$(if $(GENCODE),,@echo "grnnd: no CUDA: the builder gets the CPU path only")
	$(CC) -O2 -g -Wall -Wextra -fPIE $(HARDENING) -Isrc -c -o $@ $<
