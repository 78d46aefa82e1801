/*
 * replay.c - runs inputs of a fuzzer once each: its seeds, or a file with a finding.
 */
#include "fuzz.h"

#define MOST_BYTES (1 << 20)

int
main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
	{
		FILE	   *f = fopen(argv[i], "rb");
		uint8_t    *data = malloc(MOST_BYTES);
		size_t		size = f ? fread(data, 1, MOST_BYTES, f) : 0;

		if (!f)
			return 2;
		fclose(f);
		printf("%s\n", argv[i]);
		fflush(stdout);
		/* of its own size, so that reading past the end is noticed */
		data = realloc(data, size > 0 ? size : 1);
		LLVMFuzzerTestOneInput(data, size);
		free(data);
	}
	return 0;
}
