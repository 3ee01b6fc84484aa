#include "proxy/compression/media_type.h"

#include <algorithm>

#include "proxy/common/token.h"

namespace sluice {

bool is_media_type_pattern(std::string_view text) {
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos) return false;
  const std::string_view type = text.substr(0, slash), subtype = text.substr(slash + 1);
  const size_t star = subtype.find('*');
  const bool star_fits = star == std::string_view::npos || subtype == "*" || subtype.starts_with("*+");
  return http1::is_token(type) && type.find('*') == std::string_view::npos && http1::is_token(subtype) && star_fits &&
         subtype.find('*', 1) == std::string_view::npos;
}

bool fits_media_type(std::string_view pattern, std::string_view content_type) {
  content_type = http1::trimmed(content_type.substr(0, content_type.find(';')));
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return http1::same(content_type, pattern);
  const std::string_view front = pattern.substr(0, star), back = pattern.substr(star + 1);
  return content_type.size() > front.size() + back.size() && http1::same(content_type.substr(0, front.size()), front) &&
         http1::same(content_type.substr(content_type.size() - back.size()), back);
}

}  // namespace sluice
