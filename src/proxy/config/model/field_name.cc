#include "proxy/config/model/field_name.h"

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "proxy/common/suggestions.h"
#include "proxy/common/token.h"

namespace sluice::config {

absl::StatusOr<FieldName> FieldName::parse(std::string_view text) {
  if (!http1::is_token(text)) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected the name of a header field such as x-env, got ", in_quotes(text)));
  }
  FieldName name;
  name.text_ = absl::AsciiStrToLower(text);
  return name;
}

}  // namespace sluice::config
