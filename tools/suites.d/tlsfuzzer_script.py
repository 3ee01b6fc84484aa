"""Runs one script of tlsfuzzer with a cipher that Sluice supports instead of the one of `-d`, which it does not."""

import runpy
import sys

from tlslite.constants import CipherSuite

CipherSuite.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA = CipherSuite.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
