"""The scenarios of xds_test.py by the incremental protocol (delta xDS). With SLUICE_E2E_LONG=1 all of them and, if the environment
variable ENVOY names that program, also with Envoy in the place of Sluice."""

import os

import harness
import xds_test
from harness import LONG
from xds_support import DataPlane, Envoy, XdsTest

# Of the scenarios by the incremental protocol, the short form has those in which the two protocols differ most.
INCREMENTAL = ("by_name", "endpoints_move", "removed", "removed_cluster", "invalid_listener", "away_and_back", "waits_for_endpoints",
               "certificate_rotates", "rest_of_a_rejected_response", "secret_that_is_rejected")


class SluiceIncremental(XdsTest):
    DATA_PLANE, DELTA = DataPlane, True


for _name, _member in vars(xds_test.Scenarios).items():
    if not _name.startswith("__") and (LONG or not _name.startswith("test_") or _name[5:] in INCREMENTAL) and _name != "DELTA":
        setattr(SluiceIncremental, _name, _member)


if LONG and os.environ.get("ENVOY"):
    class WithEnvoyIncremental(xds_test.Scenarios, XdsTest):
        DATA_PLANE, DELTA = Envoy, True


if __name__ == "__main__":
    harness.main()
