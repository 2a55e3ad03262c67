"""Statistics that no measurement of windows needs."""

import pytest

from accelmark import stats


def test_the_interval_of_a_share_is_wilsons():
    # By hand: 5 of 10, z^2 = 3.8415: (0.5 + 0.19207) / 1.38415 = 0.5 in the middle, and
    # 1.96 / 1.38415 x sqrt(0.025 + 0.0096) = 0.2634 to each side.
    assert stats.proportion(5, 10) == pytest.approx((0.2366, 0.7634), abs=1e-4)
    # Newcombe, Statistics in Medicine 17, 1998, table I, method 3.
    assert stats.proportion(81, 263) == pytest.approx((0.2553, 0.3662), abs=1e-4)
    assert stats.proportion(0, 20) == pytest.approx((0.0, 0.1611), abs=1e-4)
    assert stats.proportion(20, 20) == pytest.approx((0.8389, 1.0), abs=1e-4)
