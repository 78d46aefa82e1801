/*
 * options.h - the options of a command line, as a table of names, kinds and targets.
 */
#ifndef GRN_OPTIONS_H
#define GRN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

typedef enum GrnOptionKind
{
	GRN_OPTION_NUMBER,			/* uint32_t, from low to high */
	GRN_OPTION_LARGE,			/* uint64_t, from low to high */
	GRN_OPTION_SHARE,			/* float, over 0 and at most 1 */
	GRN_OPTION_WORD,			/* uint32_t: the position in words */
	GRN_OPTION_TEXT,			/* const char *: the argument itself */
	GRN_OPTION_FLAG,			/* bool; takes no argument */
	GRN_OPTION_OTHER			/* take() parses the argument */
} GrnOptionKind;

typedef struct GrnOption
{
	const char *name;			/* without "--"; NULL ends a table */
	GrnOptionKind kind;
	void	   *target;
	uint64_t	low,
				high;
	const char *const *words;	/* ends with NULL */
	bool		(*take) (void *target, const char *argument);	/* reports an error and returns
																 * false if the argument is wrong */
} GrnOption;

/* Entries of a table. */
#define GRN_NUMBER(name, target, low, high) {(name), GRN_OPTION_NUMBER, (target), (low), (high), NULL, NULL}
#define GRN_LARGE(name, target, low, high) {(name), GRN_OPTION_LARGE, (target), (low), (high), NULL, NULL}
#define GRN_SHARE(name, target) {(name), GRN_OPTION_SHARE, (target), 0, 0, NULL, NULL}
#define GRN_WORD(name, target, words) {(name), GRN_OPTION_WORD, (target), 0, 0, (words), NULL}
#define GRN_TEXT(name, target) {(name), GRN_OPTION_TEXT, (target), 0, 0, NULL, NULL}
#define GRN_FLAG(name, target) {(name), GRN_OPTION_FLAG, (target), 0, 0, NULL, NULL}
#define GRN_OTHER(name, target, take) {(name), GRN_OPTION_OTHER, (target), 0, 0, NULL, (take)}
#define GRN_LAST_OPTION {NULL, GRN_OPTION_OTHER, NULL, 0, 0, NULL, NULL}

#define GRN_MOST_OPTIONS 40		/* largest number of entries in a table */
#define GRN_OPTIONS_WRONG (-1)
#define GRN_OPTIONS_HELP (-2)

/*
 * Parses the options in argv.  Returns the position of the first argument that is not an option,
 * GRN_OPTIONS_HELP for --help and -h, or GRN_OPTIONS_WRONG after an error message.
 */
extern int	grn_take_options(int argc, char **argv, const GrnOption *table);

/* Parses a number from low to high, or prints an error with the option and returns false. */
extern bool grn_option_number(const char *option, const char *text, uint64_t low, uint64_t high,
							  uint64_t *out);

/* Prints the program's name and a message to stderr. */
extern void grn_cli_error(const char *format,...) __attribute__((format(printf, 1, 2)));

#endif							/* GRN_OPTIONS_H */
