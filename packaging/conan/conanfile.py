"""The Conan package of the buffer library (sluice::iobuf), made from this checkout:

    conan create packaging/conan
"""

import os
import re

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load

# What a build of the library alone reads.
SOURCES = ("CMakeLists.txt", "LICENSE", "cmake/*", "include/*", "src/CMakeLists.txt", "src/pool/*", "src/buffer/*", "tools/deps.d/sources",
           "tools/gdb/*")


class SluiceIobuf(ConanFile):
    name = "sluice-iobuf"
    description = "Reference-counted buffers on tiered pools, for io_uring and for parsers"
    license = "Apache-2.0"
    topics = ("buffer", "zero-copy", "memory-pool", "io-uring")
    package_type = "static-library"  # Its code may become a part of a shared library.
    settings = "os", "arch", "compiler", "build_type"

    def _tree(self):
        return os.path.normpath(os.path.join(self.recipe_folder, "../.."))

    def set_version(self):
        header = load(self, os.path.join(self._tree(), "include/sluice/version.h"))
        self.version = ".".join(re.findall(r"^#define SLUICE_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$", header, re.M))

    def export_sources(self):
        for pattern in SOURCES:
            copy(self, pattern, self._tree(), self.export_sources_folder)

    def validate(self):
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration("it uses mmap, madvise and fallocate as Linux has them")
        check_min_cppstd(self, 20)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        for part in ("PROXY", "TESTS", "BENCH", "EXAMPLES"):
            toolchain.cache_variables[f"SLUICE_BUILD_{part}"] = False
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build(target="sluice_iobuf_archive")

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        CMake(self).install(component="iobuf")

    def package_info(self):
        # The library's own package files are as good; Conan's generators make the same names of this.
        self.cpp_info.set_property("cmake_file_name", "sluice")
        self.cpp_info.set_property("cmake_target_name", "sluice::iobuf")
        self.cpp_info.set_property("pkg_config_name", "sluice-iobuf")
        self.cpp_info.libs = ["sluice_iobuf"]
        self.cpp_info.system_libs = ["pthread"]
