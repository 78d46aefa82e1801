# Makefile - PGXS for the extension, plus grnnd_build and its CUDA kernels.
#
#   make [PG_CONFIG=...] [WITH_CUDA=auto|yes|no] [CUDA_ARCHS="90 100"]
#   make install
EXTENSION = grnnd
MODULE_big = grnnd
DATA = sql/grnnd--0.1.0.sql
OBJS = $(patsubst %.c,%.o,$(wildcard src/am/*.c src/graph/*.c))

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
PG_CPPFLAGS = -I$(shell $(PG_CONFIG) --includedir-server)/extension/vector
SHLIB_LINK += -lm
EXTRA_CLEAN = grnnd_build build

all: grnnd_build

include $(PGXS)

# The wheel's PostgreSQL 18 names a warning that gcc before 14 refuses for C.
override CFLAGS := $(filter-out -Wmissing-variable-declarations,$(CFLAGS))

include cuda/gpu.mk

BUILDER_SRC = $(wildcard src/builder/*.c src/graph/*.c)
BUILDER_OBJ = $(patsubst src/%.c,build/%.o,$(BUILDER_SRC))
BUILDER_CFLAGS = -O2 -g -std=gnu11 -Wall -Wextra -Wno-unused-parameter -pthread

build/%.o: src/%.c $(wildcard src/graph/*.h src/builder/*.h cuda/gpu.h)
	@mkdir -p $(@D)
	$(CC) $(BUILDER_CFLAGS) -c -o $@ $<

grnnd_build: $(BUILDER_OBJ) $(GPU_OBJ)
	$(CC) -pthread -o $@ $^ $(GPU_LIBS) -lm -ldl -lrt

$(OBJS): $(wildcard src/am/*.h src/graph/*.h src/builder/*.h)

install: install-builder
.PHONY: install-builder
install-builder: grnnd_build
	$(MKDIR_P) '$(DESTDIR)$(pkglibdir)'
	$(INSTALL_PROGRAM) grnnd_build '$(DESTDIR)$(pkglibdir)/'
