#pragma once

// The version of Sluice. CMakeLists.txt reads it here.

#define SLUICE_VERSION_MAJOR 0
#define SLUICE_VERSION_MINOR 1
#define SLUICE_VERSION_PATCH 0

/// The version as one number that grows with it: 1.2.3 is 10203.
///
///     #if SLUICE_VERSION >= 200  // 0.2.0
#define SLUICE_VERSION (SLUICE_VERSION_MAJOR * 10000 + SLUICE_VERSION_MINOR * 100 + SLUICE_VERSION_PATCH)

/// The version as text, such as "1.2.3".
#define SLUICE_VERSION_STRING SLUICE_VERSION_TEXT(SLUICE_VERSION_MAJOR, SLUICE_VERSION_MINOR, SLUICE_VERSION_PATCH)
#define SLUICE_VERSION_TEXT(major, minor, patch) SLUICE_VERSION_JOIN(major, minor, patch)
#define SLUICE_VERSION_JOIN(major, minor, patch) #major "." #minor "." #patch

/// The library's names are in `namespace sluice`, and there in an inline namespace that is named after the interface
/// version. Programs do not name it. It makes a link fail when objects were compiled with the headers of another
/// version, and lets one program hold two versions.
namespace sluice::inline v0_1 {}
