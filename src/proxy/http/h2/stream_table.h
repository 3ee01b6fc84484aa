#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "proxy/http/h2/http2_stream.h"
#include "sluice/chunk_pool.h"
#include "sluice/lease.h"

namespace sluice {

/// A hash table of a connection's streams by id. It holds no memory while it is empty.
class Http2StreamTable {
 public:
  size_t size() const { return size_; }
  Http2Stream* find(uint32_t id) const {
    if (size_ == 0) return nullptr;
    Http2Stream* stream = buckets()[bucket(id)];
    while (stream && stream->id_ != id) stream = stream->next_in_table_;
    return stream;
  }
  void insert(ChunkPool& pool, Http2Stream& stream) {
    if (size_ == count_ && count_ < kMaxBuckets) grow(pool);
    put(stream);
    ++size_;
  }
  void erase(Http2Stream& stream) {
    Http2Stream** link = &buckets()[bucket(stream.id_)];
    while (*link != &stream) link = &(*link)->next_in_table_;
    *link = stream.next_in_table_;
    if (--size_ == 0) {
      chunk_ = Lease();
      count_ = 0;
    }
  }
  /// Calls `visit(Http2Stream&)` for each stream, in no particular order. `visit` must not insert or erase.
  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (size_t i = 0; i < count_; ++i) {
      for (Http2Stream* stream = buckets()[i]; stream;) {
        Http2Stream* next = stream->next_in_table_;
        visit(*stream);
        stream = next;
      }
    }
  }

 private:
  static constexpr size_t kMaxBuckets = kMaxChunkBytes / sizeof(Http2Stream*);  // Beyond, the bucket lists grow.

  Http2Stream** buckets() const { return reinterpret_cast<Http2Stream**>(const_cast<std::byte*>(chunk_.data())); }
  // One side's stream ids are every second number.
  size_t bucket(uint32_t id) const { return id / 2 & (count_ - 1); }
  void put(Http2Stream& stream) {
    Http2Stream*& first = buckets()[bucket(stream.id_)];
    stream.next_in_table_ = first;
    first = &stream;
  }
  void grow(ChunkPool& pool) {
    const Http2StreamTable old = take();
    count_ = old.count_ == 0 ? kMinChunkBytes / sizeof(Http2Stream*) : old.count_ * 2;
    chunk_ = Lease(ChunkRef::take(pool.get_metadata(count_ * sizeof(Http2Stream*))), 0, 0);
    chunk_.grow_back(count_ * sizeof(Http2Stream*));
    for (size_t i = 0; i < count_; ++i) buckets()[i] = nullptr;
    old.for_each([this](Http2Stream& stream) { put(stream); });
    size_ = old.size_;
  }
  Http2StreamTable take() {
    Http2StreamTable taken;
    taken.chunk_ = std::move(chunk_);
    taken.count_ = std::exchange(count_, 0);
    taken.size_ = std::exchange(size_, 0);
    return taken;
  }

  Lease chunk_;
  size_t count_ = 0;  // The number of buckets: a power of two.
  size_t size_ = 0;
};

}  // namespace sluice
