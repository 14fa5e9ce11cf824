// SPDX-License-Identifier: Apache-2.0
//
// Gloo's all-reduce over TCP, by each of its algorithms. Starts its ranks
// itself.

#include <gloo/algorithm.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <stdlib.h>

#include <exception>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "absl/status/statusor.h"
#include "shoal/tools/peers/peer_sweep.h"

namespace shoal::peers {
namespace {

using gloo::AllreduceOptions;

class GlooWorld : public PeerWorld {
 public:
  GlooWorld(int rank, int size, const std::string& store_directory)
      : context_(std::make_shared<gloo::rendezvous::Context>(rank, size)) {
    gloo::transport::tcp::attr attributes;
    attributes.iface = "lo";
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    gloo::rendezvous::FileStore store(store_directory);
    context_->connectFullMesh(store, device);
  }

  int rank() const override { return context_->rank; }
  int size() const override { return context_->size; }
  double Max(double value) override {
    AllreduceOptions options(context_);
    options.setOutput(&value, 1);
    options.setReduceFunction(
        static_cast<void (*)(void*, const void*, const void*, size_t)>(
            &gloo::max<double>));
    gloo::allreduce(options);
    return value;
  }

  // Each of the algorithms, on the output in place.
  std::vector<Variant> Variants(Buffers* buffers) {
    float* data = buffers->output.data();
    const int count = static_cast<int>(buffers->count);
    auto halving_doubling =
        std::make_shared<gloo::AllreduceHalvingDoubling<float>>(
            context_, std::vector<float*>{data}, count);
    return {
        {"ring",
         [=, this] { Run(AllreduceOptions::Algorithm::RING, data, count); }},
        {"bcube",
         [=, this] { Run(AllreduceOptions::Algorithm::BCUBE, data, count); }},
        {"halving-doubling", [halving_doubling] { halving_doubling->run(); }}};
  }

 private:
  void Run(AllreduceOptions::Algorithm algorithm, float* data, int count) {
    AllreduceOptions options(context_);
    options.setOutput(data, count);
    options.setAlgorithm(algorithm);
    options.setReduceFunction(
        static_cast<void (*)(void*, const void*, const void*, size_t)>(
            &gloo::sum<float>));
    gloo::allreduce(options);
  }

  std::shared_ptr<gloo::rendezvous::Context> context_;
};

int RunRank(int rank, const Flags& flags, const std::string& store_directory) {
  try {
    GlooWorld world(rank, flags.world, store_directory);
    const int result = Sweep(&world, flags, [&world](Buffers* buffers) {
      return world.Variants(buffers);
    });
    world.Max(0);  // Nobody leaves while another still waits.
    return result;
  } catch (const std::exception& error) {
    std::cerr << "gloo, rank " << rank << ": " << error.what() << std::endl;
    return 1;
  }
}

int Main(int argc, char** argv) {
  const absl::StatusOr<Flags> flags = ParseFlags(argc, argv);
  if (!flags.ok() || flags->collective != "all_reduce") {
    std::cerr << (flags.ok() ? "this driver has all_reduce only"
                             : flags.status().message())
              << std::endl;
    return 2;
  }
  std::string directory =
      (std::filesystem::temp_directory_path() / "shoal_gloo_XXXXXX").string();
  if (mkdtemp(directory.data()) == nullptr) {
    std::cerr << "cannot create " << directory << std::endl;
    return 1;
  }
  const int result = ForkRanks(
      flags->world, [&](int rank) { return RunRank(rank, *flags, directory); });
  std::error_code ignored;
  std::filesystem::remove_all(directory, ignored);
  return result;
}

}  // namespace
}  // namespace shoal::peers

int main(int argc, char** argv) { return shoal::peers::Main(argc, argv); }
