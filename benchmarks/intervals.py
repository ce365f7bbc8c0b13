"""A 10,000-resample bootstrap interval and a sign-flip test of 300 queries: ours and scipy's."""

from __future__ import annotations

import numpy as np
from scipy import stats as scipy_stats
from sidebyside import about, compare

from localeval import stats


def main(queries: int = 300) -> None:
    values = np.random.default_rng(0).beta(2, 2, queries)
    differences = values - 0.48
    about()
    compare(
        lambda: stats.interval(values),
        lambda: scipy_stats.bootstrap(
            (values,), np.mean, n_resamples=10_000, method="percentile", rng=np.random.default_rng(1)
        ),
        ("localeval bootstrap", "scipy bootstrap"),
    )
    compare(
        lambda: stats.sign_flip(differences),
        lambda: scipy_stats.permutation_test(
            (differences,), np.mean, permutation_type="samples", n_resamples=10_000, rng=np.random.default_rng(1)
        ),
        ("localeval sign flip", "scipy permutation_test"),
        rounds=5,
    )


if __name__ == "__main__":
    main()
