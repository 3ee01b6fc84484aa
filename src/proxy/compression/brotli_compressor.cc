#include <brotli/encode.h>

#include <algorithm>
#include <memory>

#include "proxy/compression/block_cache.h"
#include "proxy/compression/compressor.h"

namespace sluice {

namespace {

// 64 KiB. From 128 KiB on, the tables of the higher levels are several times as large, for only 3% less output.
constexpr uint32_t kWindowBits = 16;
constexpr uint32_t kBlockBits = 16;

void* take_block(void* cache, size_t bytes) { return static_cast<BlockCache*>(cache)->take(bytes); }
void give_block(void* cache, void* memory) { static_cast<BlockCache*>(cache)->give(memory); }

// A brotli encoder serves one stream only, but its memory is kept for the next.
class BrotliCompressor final : public Compressor {
 public:
  ~BrotliCompressor() override { end(); }

  bool begin(uint32_t level) override {
    end();
    encoder_ = BrotliEncoderCreateInstance(take_block, give_block, &blocks_);
    return encoder_ && BrotliEncoderSetParameter(encoder_, BROTLI_PARAM_QUALITY, level) &&
           BrotliEncoderSetParameter(encoder_, BROTLI_PARAM_LGWIN, kWindowBits) &&
           BrotliEncoderSetParameter(encoder_, BROTLI_PARAM_LGBLOCK, kBlockBits);
  }

  size_t memory_bytes() const override { return blocks_.total_bytes(); }

 private:
  void end() {
    if (encoder_) BrotliEncoderDestroyInstance(encoder_);
    encoder_ = nullptr;
  }

  Result run(Step& step, Then then) override {
    const BrotliEncoderOperation operation = then == Then::kMore    ? BROTLI_OPERATION_PROCESS
                                             : then == Then::kFlush ? BROTLI_OPERATION_FLUSH
                                                                    : BROTLI_OPERATION_FINISH;
    size_t in_bytes = step.in.size(), out_bytes = step.out.size();
    const auto* in = reinterpret_cast<const uint8_t*>(step.in.data());
    auto* out = reinterpret_cast<uint8_t*>(step.out.data());
    if (!BrotliEncoderCompressStream(encoder_, operation, &in_bytes, &in, &out_bytes, &out, nullptr)) {
      return Result::kFailed;
    }
    step.in = step.in.last(in_bytes);
    step.out = step.out.last(out_bytes);
    const bool done = in_bytes == 0 && !BrotliEncoderHasMoreOutput(encoder_) &&
                      (then != Then::kEnd || BrotliEncoderIsFinished(encoder_));
    return done ? Result::kDone : Result::kNeedsRoom;
  }

  BlockCache blocks_;
  BrotliEncoderState* encoder_ = nullptr;
};

}  // namespace

std::unique_ptr<Compressor> make_brotli_compressor() { return std::make_unique<BrotliCompressor>(); }

}  // namespace sluice
