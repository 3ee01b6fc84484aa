#include "alts_like/handshake.h"

#include <algorithm>

namespace sluice {

bool Agreement::peer_is_one_of(const std::vector<std::string>& wanted) const {
  return wanted.empty() || std::any_of(peer_names.begin(), peer_names.end(), [&](const std::string& name) {
           return std::find(wanted.begin(), wanted.end(), name) != wanted.end();
         });
}

}  // namespace sluice
