#include "proxy/cli/compression_words.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proxy/compression/compression_policy.h"
#include "proxy/http/proxy/forward_head.h"

namespace sluice {

std::string compression_for(const config::Compression& compression, const config::HttpRoute& route,
                            const Head& request) {
  if (!route.compression) return "nothing: the route leaves it out";
  if (is_grpc(request)) return "nothing: gRPC does so itself";
  if (request.method() == "HEAD") return "nothing: a response to HEAD has no body";
  const CompressionPolicy policy(compression);
  const ContentCoding coding = policy.choose(request.fields);
  if (coding == ContentCoding::kIdentity) return "nothing: the client does not accept it (Accept-Encoding)";
  return absl::StrCat(content_coding_name(coding), ", for responses of ", absl::StrJoin(policy.types(), ", "), " from ",
                      config::print_size(compression.min_size), " on");
}

}  // namespace sluice
