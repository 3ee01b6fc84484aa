// Checks of `compression` beyond the types of its keys.
#include "proxy/config/model/compression.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "proxy/config/load/loader.h"

namespace sluice::config {
namespace {

// `fields` begin at column 82 of line 1.
std::string errors_of(std::string_view fields) {
  const absl::StatusOr<Config> config =
      load_text(absl::StrCat("listeners: [ { name: a, address: 0.0.0.0:80, http: { forward: web, compression: { ",
                             fields, " } } } ]\nupstreams: [ { name: web, endpoints: [ 127.0.0.1:9000 ] } ]\n"),
                "f");
  return std::string(config.ok() ? "" : config.status().message());
}

TEST(LoaderCompression, Accepts) {
  EXPECT_EQ(errors_of(""), "");
  EXPECT_EQ(errors_of("codings: gzip, types: [ text/*, application/*+json ], min_size: 0, level: 9, max_streams: 1"),
            "");
  EXPECT_EQ(errors_of("codings: [ br, gzip, zstd ]"), "");
}

TEST(LoaderCompression, Refuses) {
  const auto at = [](int column, std::string_view key, std::string_view what) {
    return absl::StrCat("f:1:", column, ": listeners[0].http.compression.", key, ": ", what);
  };
  EXPECT_EQ(errors_of("codings: deflate"), at(92, "codings[0]", "expected one of gzip, br, zstd, got \"deflate\""));
  EXPECT_EQ(errors_of("codings: [ br, br ]"), at(98, "codings[1]", "\"br\" is a duplicate"));
  EXPECT_EQ(errors_of("types: html"),
            at(90, "types[0]", "expected a media type such as text/html, text/* or application/*+json, got \"html\""));
  EXPECT_EQ(errors_of("level: 10"), at(90, "level", "must be from 1 to 9, got \"10\""));
  EXPECT_EQ(errors_of("max_streams: 0"), at(96, "max_streams", "must not be 0, got \"0\""));
}

}  // namespace
}  // namespace sluice::config
