#pragma once

#include <openssl/base.h>
#include <openssl/bio.h>

#include "sluice/buffer.h"
#include "sluice/chunk_pool.h"

namespace sluice {

/// The buffers that an SSL object reads from and writes to instead of a socket. BoringSSL reads no further than the
/// current record, so the bytes that follow a handshake remain in `in`.
struct TlsWire {
  Buffer in;
  Buffer out;
  ChunkPool* pool = nullptr;  ///< The pool of the thread that currently runs the SSL object.

  /// A BIO over this object, which must outlive it.
  bssl::UniquePtr<BIO> bio();
};

}  // namespace sluice
