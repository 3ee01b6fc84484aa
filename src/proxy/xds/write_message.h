#pragma once

#include <string>

#include "proxy/common/proto_writer.h"

namespace sluice::xds {

/// A message of any length: `write` writes it with a ProtoWriter, again with more room until it fits.
template <class Write>
std::string write_message(const Write& write) {
  std::string room(512, '\0');
  for (;; room.resize(room.size() * 4)) {
    ProtoWriter out(room);
    write(out);
    if (!out.ok()) continue;
    room.resize(out.written().size());
    return room;
  }
}

}  // namespace sluice::xds
