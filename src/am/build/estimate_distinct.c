/*
 * estimate_distinct.c - how many distinct rows a table has, by a sample of its pages.
 */
#include "am/build/estimate_distinct.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A kind of values has so many times the pages of the one before. */
#define KIND_RATIO 1.2

/*
 * Steps of the search for the likeliest mixture.  With so few it stays nearer to the even one that
 * it begins with, where the sample does not say much: 2,000 change no estimate by a tenth, but for
 * those that are out by more.
 */
#define STEPS 300

/*
 * By how much a mixture has to be likelier than values that are all of one kind: twice the
 * logarithm of the quotient.
 */
#define LIKELIER 6.0

/* Values on 1, 2, ... pages of the sample. */
typedef double Counts[GRNND_MOST_RARE + 1];

/* What the sample has of rare values. */
typedef struct RareValues
{
	Counts		counts;
	Counts		rows;			/* that these have */
	double		n;
	double		all_rows;
	double		pages;			/* of each, added up */
} RareValues;

static int
compare_seen(const void *a, const void *b)
{
	const GrnndSeenRow *x = a;
	const GrnndSeenRow *y = b;

	if (x->hash != y->hash)
		return x->hash < y->hash ? -1 : 1;
	return (x->page > y->page) - (x->page < y->page);
}

/* Counts the values of sorted rows; most: pages that rare ones are on. */
static void
count_values(const GrnndSeenRow *rows, size_t n, uint64_t most, GrnndDistinct *d, RareValues *rare,
			 GrnndFrequentFn frequent, void *arg)
{
	size_t		end;

	for (size_t begin = 0; begin < n; begin = end)
	{
		uint64_t	pages = 1;

		for (end = begin + 1; end < n && rows[end].hash == rows[begin].hash; end++)
			pages += rows[end].page != rows[end - 1].page;
		if (pages <= most)
		{
			rare->counts[pages]++;
			rare->rows[pages] += (double) (end - begin);
			rare->n++;
			rare->all_rows += (double) (end - begin);
			rare->pages += (double) pages;
			continue;
		}
		d->frequent++;
		d->frequent_rows += (double) (end - begin);
		if (frequent)
			frequent(arg, (double) (end - begin));
	}
}

/*
 * The chance [1 .. GRNND_MOST_RARE] that so many of a value's pages are in the sample, each with
 * probability share; returns their sum.
 */
static double
chances(double pages, double share, double *chance)
{
	double		sum = 0;

	for (int i = 1; i <= GRNND_MOST_RARE; i++)
	{
		chance[i] = 0;
		if (i <= pages)
			chance[i] = exp(lgamma(pages + 1) - lgamma(i + 1) - lgamma(pages - i + 1) +
							i * log(share) + (pages - i) * log1p(-share));
		sum += chance[i];
	}
	return sum;
}

/* The logarithm of how likely counts are where values are on i pages with such probabilities. */
static double
log_likelihood(const Counts counts, const double *probability)
{
	double		sum = 0;

	for (int i = 1; i <= GRNND_MOST_RARE; i++)
		if (counts[i] > 0)
			sum += counts[i] * log(fmax(probability[i], 1e-300));
	return sum;
}

/* The same where all values have so many pages, or one more where that is no whole number. */
static double
log_likelihood_of_one_kind(const Counts counts, double pages, double share)
{
	double		less[GRNND_MOST_RARE + 1];
	double		more[GRNND_MOST_RARE + 1];
	double		sum_less = chances(floor(pages), share, less);
	double		sum_more = chances(floor(pages) + 1, share, more);
	double		part = pages - floor(pages);
	double		sum = (1 - part) * sum_less + part * sum_more;

	for (int i = 1; i <= GRNND_MOST_RARE; i++)
		less[i] = ((1 - part) * less[i] + part * more[i]) / sum;
	return log_likelihood(counts, less);
}

/*
 * Finds the likeliest mixture of kinds (by expectation maximisation), as far as it goes in STEPS,
 * and fills d->kind with it; returns the logarithm of how likely the sample is.
 */
static double
fit_mixture(GrnndDistinct *d, const RareValues *rare, double share)
{
	const double *counts = rare->counts;
	double		chance[GRNND_MOST_KINDS][GRNND_MOST_RARE + 1];
	double		sum[GRNND_MOST_KINDS];
	double		weight[GRNND_MOST_KINDS];
	double		mixed[GRNND_MOST_RARE + 1];
	double		pages = 1;
	uint32_t	n = 0;

	/* those with more pages would be frequent, mostly */
	while (n < GRNND_MOST_KINDS && (n == 0 || pages < GRNND_MOST_RARE / share))
	{
		d->kind[n].pages = pages;
		sum[n] = chances(pages, share, chance[n]);
		for (int i = 1; i <= GRNND_MOST_RARE; i++)
			chance[n][i] /= sum[n];
		pages = fmax(pages + 1, floor(pages * KIND_RATIO));
		n++;
	}
	for (uint32_t k = 0; k < n; k++)
		weight[k] = 1.0 / n;
	for (int step = 0; step <= STEPS; step++)
	{
		memset(mixed, 0, sizeof(mixed));
		for (uint32_t k = 0; k < n; k++)
			for (int i = 1; i <= GRNND_MOST_RARE; i++)
				mixed[i] += weight[k] * chance[k][i];
		for (uint32_t k = 0; step < STEPS && k < n; k++)
		{
			double		share_of_seen = 0;

			for (int i = 1; i <= GRNND_MOST_RARE; i++)
				if (counts[i] > 0)
					share_of_seen += counts[i] * chance[k][i] / fmax(mixed[i], 1e-300);
			weight[k] *= share_of_seen / rare->n;
		}
	}
	d->kinds = n;
	d->rare = 0;
	for (uint32_t k = 0; k < n; k++)
	{
		double		on_a_page = 0;
		double		known = 0;

		/* rows on a page, by values of the sample on as many pages as such have there */
		for (int i = 1; i <= GRNND_MOST_RARE; i++)
			if (counts[i] > 0)
			{
				on_a_page += chance[k][i] * rare->rows[i] / (counts[i] * i);
				known += chance[k][i];
			}
		d->kind[k].values = weight[k] * rare->n / sum[k];
		d->kind[k].rows = d->kind[k].pages * (known > 0 ? on_a_page / known : 1);
		d->rare += d->kind[k].values;
	}
	return log_likelihood(counts, mixed);
}

GrnndDistinct
grnnd_estimate_distinct(GrnndSeenRow *rows, size_t n, double share, GrnndFrequentFn frequent,
						void *arg)
{
	GrnndDistinct d = {0};
	RareValues	rare = {0};
	double		once;
	double		even;
	double		mixture;

	if (n == 0)
		return d;
	qsort(rows, n, sizeof(GrnndSeenRow), compare_seen);
	count_values(rows, n, share < 1 ? GRNND_MOST_RARE : 0, &d, &rare, frequent, arg);
	if (rare.n == 0)
		return d;
	/* Haas and Stokes': by all values, those on one page of the sample, and pages */
	once = rare.counts[1];
	even = rare.pages * rare.n / (rare.pages - once + once * share);
	mixture = fit_mixture(&d, &rare, share);
	if (2 * (mixture - log_likelihood_of_one_kind(rare.counts, rare.pages / share / even, share)) < LIKELIER)
	{
		d.rare = even;
		d.kinds = 1;
		d.kind[0] = (GrnndRareKind) {even, rare.pages / share / even, rare.all_rows / share / even};
	}
	return d;
}
