#include <zlib.h>

#include <limits>
#include <memory>

#include "proxy/compression/block_cache.h"
#include "proxy/compression/compressor.h"
#include "sluice/internal/check.h"

namespace sluice {

namespace {

constexpr int kWindowBits = 15;  // The largest: 128 KiB of memory.
constexpr int kGzipWrapper = 16;
constexpr int kMemoryLevel = 8;  // zlib's default: 128 KiB.

voidpf take_block(voidpf cache, uInt items, uInt bytes) {
  return static_cast<BlockCache*>(cache)->take(size_t{items} * bytes);
}
void give_block(voidpf cache, voidpf memory) { static_cast<BlockCache*>(cache)->give(memory); }

class GzipCompressor final : public Compressor {
 public:
  GzipCompressor() {
    stream_.zalloc = take_block;
    stream_.zfree = give_block;
    stream_.opaque = &blocks_;
  }
  ~GzipCompressor() override {
    if (ready_) deflateEnd(&stream_);
  }

  bool begin(uint32_t level) override {
    if (!ready_) {
      ready_ = deflateInit2(&stream_, static_cast<int>(level), Z_DEFLATED, kWindowBits + kGzipWrapper, kMemoryLevel,
                            Z_DEFAULT_STRATEGY) == Z_OK;
      return ready_;
    }
    return deflateReset(&stream_) == Z_OK &&
           deflateParams(&stream_, static_cast<int>(level), Z_DEFAULT_STRATEGY) == Z_OK;
  }

  size_t memory_bytes() const override { return blocks_.total_bytes(); }

 private:
  Result run(Step& step, Then then) override {
    SLUICE_DCHECK(step.in.size() <= std::numeric_limits<uInt>::max());
    stream_.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(step.in.data()));
    stream_.avail_in = static_cast<uInt>(step.in.size());
    stream_.next_out = reinterpret_cast<Bytef*>(step.out.data());
    stream_.avail_out = static_cast<uInt>(step.out.size());
    const int result = deflate(&stream_, then == Then::kMore    ? Z_NO_FLUSH
                                         : then == Then::kFlush ? Z_SYNC_FLUSH
                                                                : Z_FINISH);
    step.in = step.in.last(stream_.avail_in);
    step.out = step.out.last(stream_.avail_out);
    if (result == Z_STREAM_END) return Result::kDone;
    if (result == Z_BUF_ERROR) return then == Then::kEnd ? Result::kNeedsRoom : Result::kDone;  // Nothing to do.
    if (result != Z_OK) return Result::kFailed;
    return step.out.empty() || then == Then::kEnd ? Result::kNeedsRoom : Result::kDone;
  }

  BlockCache blocks_;
  z_stream stream_{};
  bool ready_ = false;
};

}  // namespace

std::unique_ptr<Compressor> make_gzip_compressor() { return std::make_unique<GzipCompressor>(); }

}  // namespace sluice
