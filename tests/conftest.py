"""What all tests share: hypothesis profiles and the rule for tests that need the real model."""

import os

from hypothesis import HealthCheck, settings

# Times on a loaded two-core machine say nothing, so no test has a deadline of its own; pytest-timeout ends a hang.
_COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
settings.register_profile("default", _COMMON, max_examples=25)
settings.register_profile("ci", _COMMON, max_examples=50, derandomize=True, print_blob=True)
settings.register_profile("expensive", _COMMON, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "default"))
