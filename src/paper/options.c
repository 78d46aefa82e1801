/*
 * options.c - parses the options of a command line by a table.
 */
#define _GNU_SOURCE				/* for program_invocation_short_name */
#include "paper/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_OPTION 256		/* getopt_long()'s value of the table's first entry */

void
grn_cli_error(const char *format,...)
{
	va_list		args;

	fprintf(stderr, "%s: ", program_invocation_short_name);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\n");
}

bool
grn_option_number(const char *option, const char *text, uint64_t low, uint64_t high, uint64_t *out)
{
	char	   *end;

	errno = 0;
	*out = strtoull(text, &end, 10);
	if (errno == 0 && end != text && *end == '\0' && text[0] != '-' &&
		*out >= low && *out <= high)
		return true;
	grn_cli_error("--%s must be a whole number from %llu to %llu, not \"%s\"", option,
				  (unsigned long long) low, (unsigned long long) high, text);
	return false;
}

static bool
take_word(const GrnOption *option, const char *text)
{
	for (uint32_t i = 0; option->words[i]; i++)
		if (strcmp(text, option->words[i]) == 0)
		{
			*(uint32_t *) option->target = i;
			return true;
		}
	grn_cli_error("--%s cannot be \"%s\" (see --help)", option->name, text);
	return false;
}

static bool
take_share(const GrnOption *option, const char *text)
{
	char	   *end;
	float		share = strtof(text, &end);

	*(float *) option->target = share;
	if (end != text && *end == '\0' && share > 0 && share <= 1)
		return true;
	grn_cli_error("--%s must be over 0 and at most 1, not \"%s\"", option->name, text);
	return false;
}

static bool
take_value(const GrnOption *option, const char *text)
{
	uint64_t	number;

	switch (option->kind)
	{
		case GRN_OPTION_NUMBER:
			if (!grn_option_number(option->name, text, option->low, option->high, &number))
				return false;
			*(uint32_t *) option->target = (uint32_t) number;
			return true;
		case GRN_OPTION_LARGE:
			return grn_option_number(option->name, text, option->low, option->high,
									 (uint64_t *) option->target);
		case GRN_OPTION_SHARE:
			return take_share(option, text);
		case GRN_OPTION_WORD:
			return take_word(option, text);
		case GRN_OPTION_TEXT:
			*(const char **) option->target = text;
			return true;
		case GRN_OPTION_FLAG:
			*(bool *) option->target = true;
			return true;
		case GRN_OPTION_OTHER:
			return option->take(option->target, text);
	}
	return false;
}

int
grn_take_options(int argc, char **argv, const GrnOption *table)
{
	struct option known[GRN_MOST_OPTIONS + 2];
	int			n = 0;
	int			found;

	memset(known, 0, sizeof(known));
	for (; table[n].name && n < GRN_MOST_OPTIONS; n++)
	{
		known[n].name = table[n].name;
		known[n].has_arg = table[n].kind == GRN_OPTION_FLAG ? no_argument : required_argument;
		known[n].val = FIRST_OPTION + n;
	}
	known[n].name = "help";
	known[n].val = 'h';
	while ((found = getopt_long(argc, argv, "h", known, NULL)) != -1)
	{
		if (found == 'h')
			return GRN_OPTIONS_HELP;
		if (found < FIRST_OPTION || !take_value(&table[found - FIRST_OPTION], optarg))
		{
			fprintf(stderr, "Try \"%s --help\".\n", program_invocation_short_name);
			return GRN_OPTIONS_WRONG;
		}
	}
	return optind;
}
