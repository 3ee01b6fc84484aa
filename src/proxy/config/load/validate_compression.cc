#include "proxy/config/load/validate_compression.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "proxy/common/suggestions.h"
#include "proxy/compression/media_type.h"
#include "proxy/config/load/scalar.h"

namespace sluice::config {

void check_compression(const Compression& compression, const std::string& path, Report& report) {
  for (size_t i = 0; i < compression.types.size(); ++i) {
    if (is_media_type_pattern(compression.types[i])) continue;
    report.error(absl::StrCat(path, ".types[", i, "]"),
                 absl::StrCat("expected a media type such as text/html, text/* or application/*+json, got ",
                              in_quotes(compression.types[i])));
  }
  const auto begin = compression.codings.begin(), end = compression.codings.end();
  for (auto at = begin; at != end; ++at) {
    if (std::find(begin, at, *at) == at) continue;
    report.error(absl::StrCat(path, ".codings[", at - begin, "]"),
                 absl::StrCat(in_quotes(Scalar<Coding>::print(*at)), " is a duplicate"));
  }
}

}  // namespace sluice::config
