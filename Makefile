# Makefile - PGXS for the extension, rules for grnnd_build, and the targets
# that try, check and measure.
#
#   make [PG_CONFIG=...] [WITH_CUDA=auto|yes|no] [CUDA_ARCHS="90 100"]
#   make install
#   make grnnd_paper             graphs of files of vectors, and the evaluation of graphs (not installed)
#   make demo [KEEP=1]           brings a PostgreSQL of its own
#   make check [PG_CONFIG=...] [VECTOR=...]   the same; or against the server named
#   make check-all [PG_CONFIG=...] [CLIENTS=no] [VECTOR=...]   with what check leaves out to save time
#   make check-soak [HOURS=24] [MINUTES=10] [SEED=1] [PG_CONFIG=...]   random tests for longer
#   make check-assert [MAJORS="15 18"]   the same against servers with assertions, built for it
#   make check-asan [PG_CONFIG=...]      tests under the address and undefined-behavior sanitizers
#   make check-valgrind [PG_CONFIG=...]  a few under Valgrind
#   make fuzz [SECONDS=600]      what reads foreign bytes, under clang's libFuzzer
#   make gpu-check [TROUBLE=yes] on a machine with a GPU; with builds that are killed
#   make dist                    the sources as a .zip for PGXN, compiled and tried in a clean Debian root
#   make deb, make rpm [MAJOR=15] packages, tried in a clean Debian root (test/packages)
#   make container [MAJOR=15]    images without a GPU's builder, of test/packages/Containerfile
#   make arm64                   the library and the CPU's builder, cross-compiled
#   make release [SIGN=KEY]      all of these with checksums and an SBOM, in .work/release
#   make bench, make format
# The extensions, each in the folder of its control file.
EXTENSION = grnnd src/tools/grnnd_tools src/build_server/grnnd_build_server

# These need no PostgreSQL, so they come before PGXS, which would want one
# (and has a target "check" of its own that only says no).
TOOLS = demo check check-all check-assert check-asan check-valgrind check-soak fuzz gpu-check dist deb rpm container arm64 release bench format
ifneq ($(filter $(TOOLS),$(MAKECMDGOALS)),)
ifneq ($(filter-out $(TOOLS),$(MAKECMDGOALS)),)
$(error run $(filter $(TOOLS),$(MAKECMDGOALS)) by itself, without $(filter-out $(TOOLS),$(MAKECMDGOALS)))
endif

.PHONY: $(TOOLS)
# (exec: make passes a signal on to the shell alone)
demo:
	@exec env KEEP='$(KEEP)' bash test/demo/demo.sh
check:
	@exec env PG_CONFIG='$(PG_CONFIG)' VECTOR='$(VECTOR)' bash test/check.sh
check-all:
	@exec env PG_CONFIG='$(PG_CONFIG)' CLIENTS='$(CLIENTS)' VECTOR='$(VECTOR)' bash test/check.sh all
check-assert:
	@exec env PG_CONFIG='$(PG_CONFIG)' CLIENTS='$(CLIENTS)' VECTOR='$(VECTOR)' MAJORS='$(MAJORS)' bash test/check.sh assert
check-asan:
	@exec env PG_CONFIG='$(PG_CONFIG)' bash test/check.sh sanitize
check-valgrind:
	@exec env PG_CONFIG='$(PG_CONFIG)' bash test/check.sh valgrind
# (bash takes SECONDS from its environment)
check-soak:
	@exec env -u SECONDS PG_CONFIG='$(PG_CONFIG)' SOAK_SECONDS='$(SECONDS)' SOAK_HOURS='$(HOURS)' \
		SOAK_MINUTES='$(MINUTES)' SOAK_SEED='$(SEED)' \
		bash test/check.sh soak
fuzz:
	@exec env -u SECONDS SOAK_SECONDS='$(SECONDS)' bash test/check.sh fuzz
gpu-check:
	@exec env TROUBLE='$(TROUBLE)' bash test/gpu_check.sh
dist deb rpm container arm64 release:
	@exec env MAJOR='$(MAJOR)' VECTOR='$(VECTOR)' SIGN='$(SIGN)' WITH_CUDA='$(WITH_CUDA)' CUDA_ARCHS='$(CUDA_ARCHS)' bash test/packages/packages.sh $@
bench:
	@cat test/bench/README.md
# C in PostgreSQL's manner, which clang-format does not know, and CUDA.
format:
	bash test/format.sh

else

MODULE_big = grnnd
DATA = $(wildcard sql/grnnd--*.sql src/*/grnnd_*--*.sql)
# Their names begin with grnnd: the folder is that of all extensions.
DOCS = $(wildcard doc/grnnd*.md)
# The rooms without PostgreSQL, which both the library and the builder get.  (src/am has rooms inside.)
PLAIN_ROOMS = memory space space/kernels store graph
GRAPH_SRC = $(wildcard $(PLAIN_ROOMS:%=src/%/*.c))
# A backend builds small indexes itself (src/am/create/in_backend.c): the steps of a build, without a GPU.
STEPS_SRC = $(wildcard src/builder/pipeline*.c src/builder/parts*.c) $(patsubst %,src/builder/%.c,forming new_lists \
	build_graph finish gpu_team gpus host prepare progress upload) cuda/stub.c
OBJS = $(patsubst %.c,%.o,$(wildcard src/am/*.c src/am/*/*.c) $(GRAPH_SRC) $(STEPS_SRC))
# pg_regress finds the outputs in ./expected, those of isolation tests under inputdir.
REGRESS = $(sort $(patsubst test/sql/%.sql,%,$(wildcard test/sql/*.sql)))
REGRESS_OPTS = --inputdir=test
# Those named point_ want a build with -DGRNND_TEST_POINTS, which make check makes.
ISOLATION = $(sort $(patsubst test/isolation/specs/%.spec,%,\
	$(filter-out %/point_%,$(wildcard test/isolation/specs/*.spec))))
ISOLATION_OPTS = --inputdir=test/isolation

# What a build needs is looked for in the order in which one would install it.
PG_CONFIG ?= pg_config
PG_MAJOR := $(shell $(PG_CONFIG) --version 2>/dev/null | sed 's/[^0-9]*\([0-9]*\).*/\1/')
PG_PACKAGE := postgresql-server-dev-$(or $(PG_MAJOR),NN) (Debian) or postgresql$(PG_MAJOR)-devel (Red Hat)
PGXS := $(shell $(PG_CONFIG) --pgxs 2>/dev/null)
ifeq ($(PG_MAJOR),)
$(error no PostgreSQL to build for: there is no program '$(PG_CONFIG)'. Install $(PG_PACKAGE), or give PG_CONFIG=/path/to/pg_config. 'make demo' and 'make check' need none)
endif
PG_INCLUDE := $(shell $(PG_CONFIG) --includedir-server)
ifeq ($(and $(wildcard $(PGXS)),$(wildcard $(PG_INCLUDE)/postgres.h)),)
$(error no server headers of the PostgreSQL $(PG_MAJOR) that '$(PG_CONFIG)' names: no $(if $(wildcard $(PGXS)),$(PG_INCLUDE)/postgres.h,$(PGXS)). Install $(PG_PACKAGE), or give PG_CONFIG=/path/to/pg_config of another server. 'make demo' and 'make check' need none)
endif
PG_CLIENT_INCLUDE := $(shell $(PG_CONFIG) --includedir)
ifeq ($(wildcard $(PG_CLIENT_INCLUDE)/libpq-fe.h)$(filter clean distclean uninstall,$(MAKECMDGOALS)),)
$(error no headers of PostgreSQL's client library: no $(PG_CLIENT_INCLUDE)/libpq-fe.h. Install libpq-dev (Debian) or postgresql$(PG_MAJOR)-devel (Red Hat))
endif
VECTOR_INCLUDE := $(PG_INCLUDE)/extension/vector
ifeq ($(wildcard $(VECTOR_INCLUDE)/vector.h)$(filter clean distclean uninstall,$(MAKECMDGOALS)),)
$(error no pgvector for PostgreSQL $(PG_MAJOR): no $(VECTOR_INCLUDE)/vector.h. Install pgvector 0.7 or newer, from its source or as postgresql-$(PG_MAJOR)-pgvector (Debian, from apt.postgresql.org) or pgvector_$(PG_MAJOR) (Red Hat, from yum.postgresql.org))
endif
ifeq ($(wildcard $(VECTOR_INCLUDE)/sparsevec.h)$(filter clean distclean uninstall,$(MAKECMDGOALS)),)
$(error the pgvector of $(VECTOR_INCLUDE) is too old: it has no sparsevec.h. Install pgvector 0.7 or newer)
endif
# Includes name the room: "store/record.h", "builder/protocol.h", "cuda/gpu.h".
PG_CPPFLAGS = -I$(VECTOR_INCLUDE) -Isrc -I. -Wswitch-enum
# (Calls within the library go directly, also of functions that it exports.)
SHLIB_LINK += -lm -lpthread -Wl,-Bsymbolic-functions
EXTRA_CLEAN = grnnd_paper build $(BESIDE) $(BESIDE_OBJ)

# What make install puts beside grnnd.so: programs, and libraries that call functions of am/export.h.
BESIDE = grnnd_build grnnd_build_remote grnnd_tools.so grnnd_build_server.so
TOOLS_OBJ = $(patsubst %.c,%.o,$(wildcard src/tools/*.c))
BUILD_SERVER_OBJ = src/build_server/find_server.o src/build_server/serve_build.o
BESIDE_OBJ = $(TOOLS_OBJ) $(BUILD_SERVER_OBJ)

# No bitcode where the server has LLVM: JIT inlines functions of expressions from it, and
# an access method has none.  So the server's own clang need not be there.
override with_llvm := no

all: $(BESIDE)

include $(PGXS)

# The wheel's PostgreSQL 18 names a warning that gcc before 14 refuses for C.
override CFLAGS := $(filter-out -Wmissing-variable-declarations,$(CFLAGS))

# Hardening, as in Debian's packages, where the compiler knows it.  What the server or COPT gives
# comes later and counts.  test/hardened.sh checks what is installed.
takes = $(shell $(CC) -O2 -Werror $1 -x c -S -o /dev/null /dev/null >/dev/null 2>&1 && echo '$1')
HARDENING := $(call takes,-fstack-protector-strong) $(call takes,-Wformat -Werror=format-security)
# (the address sanitizer does not see into fortified functions)
FORTIFY := $(if $(findstring -fsanitize,$(CC) $(CFLAGS)),,$(call takes,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2))
unfortified = $(if $(findstring _FORTIFY_SOURCE,$1),,$(FORTIFY))
HARDENING_LINK = -Wl,-z,relro -Wl,-z,now
# (without errno, lrintf() and sqrt() are instructions, not calls)
override CFLAGS := $(HARDENING) $(call unfortified,$(CFLAGS) $(CPPFLAGS)) $(CFLAGS) -fno-math-errno
HARDENING += $(call unfortified,$(COPT))
SHLIB_LINK += $(HARDENING_LINK)

include cuda/gpu.mk

# A machine without a GPU compiles for all generations, and need not.
ifneq ($(word 2,$(CUDA_USE)),)
ifeq ($(wildcard grnnd_build)$(filter clean distclean uninstall,$(MAKECMDGOALS)),)
$(info grnnd: kernels for GPUs of $(words $(CUDA_USE)) kinds ($(CUDA_USE)) take some minutes to compile. WITH_CUDA=no: none of them; CUDA_ARCHS=90: one kind, as 9.0 of nvidia-smi --query-gpu=compute_cap --format=csv)
endif
endif

# The loops of projection.c go over all numbers of all rows, and the compiler makes vectors of them.
src/graph/projection.o: override CFLAGS += -O3 -fno-trapping-math
build/graph/projection.o: BUILDER_CFLAGS += -O3 -fno-trapping-math

# No -march: distance kernels choose AVX-512, AVX2, NEON or plain C at run time.
BUILDER_SRC = $(wildcard src/builder/*.c) $(GRAPH_SRC)
BUILDER_OBJ = $(patsubst src/%.c,build/%.o,$(BUILDER_SRC))
BUILDER_CFLAGS = -O2 -g -std=gnu11 -Wall -Wextra -Wno-unused-parameter -Wswitch-enum -pthread -Isrc -I. \
	-fno-math-errno -fPIE $(HARDENING) $(COPT)

build/%.o: src/%.c
	@mkdir -p $(@D)
	$(CC) $(BUILDER_CFLAGS) -MMD -MP -c -o $@ $<
-include $(BUILDER_OBJ:.o=.d)

grnnd_build: $(BUILDER_OBJ) $(GPU_OBJ)
	$(CC) -pie $(HARDENING_LINK) $(COPT) -pthread -o $@ $^ $(GPU_LIBS) -lm -ldl -lrt

# Graphs of files of vectors, as an index has them or as the paper has them, and the evaluation of
# graphs: for measurements, not installed.
PAPER_OBJ = $(patsubst src/%.c,build/%.o,$(wildcard src/paper/*.c)) $(filter-out build/builder/main.o,$(BUILDER_OBJ))
-include $(PAPER_OBJ:.o=.d)
grnnd_paper: $(PAPER_OBJ) $(GPU_OBJ) $(PAPER_GPU_OBJ)
	$(CC) -pie $(HARDENING_LINK) $(COPT) -pthread -o $@ $^ $(GPU_LIBS) -lm -ldl -lrt

# The client of builds on another host: the builder without its kernels, and libpq.
CLIENT_OBJ = build/build_server/client.o $(filter-out build/builder/main.o,$(BUILDER_OBJ)) build/cuda/stub.o
build/build_server/client.o: BUILDER_CFLAGS += -I$(PG_CLIENT_INCLUDE)
-include build/build_server/client.d
grnnd_build_remote: $(CLIENT_OBJ)
	$(CC) -pie $(HARDENING_LINK) $(COPT) -pthread -o $@ $^ $(LDFLAGS) $(libpq) -lm -lrt

# The dynamic linker finds grnnd.so beside the libraries that need it.
grnnd_tools.so: $(TOOLS_OBJ) grnnd.so
grnnd_build_server.so: $(BUILD_SERVER_OBJ) grnnd.so
grnnd_tools.so grnnd_build_server.so:
	$(CC) $(CFLAGS) $(COPT) -shared -o $@ $^ $(LDFLAGS) $(LDFLAGS_SL) $(HARDENING_LINK) -Wl,-rpath,'$$ORIGIN'

$(OBJS) $(BESIDE_OBJ): $(wildcard src/am/*.h src/am/*/*.h src/tools/*.h src/build_server/*.h $(PLAIN_ROOMS:%=src/%/*.h) src/builder/*.h cuda/gpu.h)

.PHONY: install-beside uninstall-beside
install: install-beside
install-beside: $(BESIDE)
	$(MKDIR_P) '$(DESTDIR)$(pkglibdir)'
	$(INSTALL_PROGRAM) $(filter-out %.so,$(BESIDE)) '$(DESTDIR)$(pkglibdir)/'
	$(INSTALL_SHLIB) $(filter %.so,$(BESIDE)) '$(DESTDIR)$(pkglibdir)/'
uninstall: uninstall-beside
# (PGXS looks for the pages under doc/, where it did not put them)
uninstall-beside:
	rm -f $(addprefix '$(DESTDIR)$(pkglibdir)'/, $(BESIDE))
	rm -f $(addprefix '$(DESTDIR)$(docdir)/$(docmoduledir)'/, $(notdir $(DOCS)))

endif
