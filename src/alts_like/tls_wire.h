#pragma once

#include <openssl/base.h>
#include <openssl/bio.h>

#include "buffer/buffer.h"
#include "pool/chunk_pool.h"

namespace sluice {

/// What an SSL object reads from and writes to in the place of a socket. It reads no further than the record that it is
/// at, so what remains in `in` after a handshake are the bytes that came behind it.
struct TlsWire {
  Buffer in;
  Buffer out;
  ChunkPool* pool = nullptr;  ///< Of the thread that runs the SSL object at the moment.

  /// A BIO over this object, which must outlive it.
  bssl::UniquePtr<BIO> bio();
};

}  // namespace sluice
