#include "harness/settings/field.h"

namespace frugal::harness {
/// One place for a command: what was measured and what is virtual never stand in one column.
std::vector<Field> place_fields() {
  using T = TargetOptions;
  std::vector<Field> all;
  all.push_back(field({"on", "--on", "Where"}, &T::on, any_text("cpu|cuda|virtual|virtual:MACHINE"))
                    .with_file(Field::File::behind_colon));
  all.push_back(
      field({"hardware", "--hardware",
             "The virtual machine, or a file with the data sheet of this processor or GPU"},
            &T::hardware, any_text("NAME|FILE"))
          .with_file(Field::File::perhaps));
  Field lone = field({"lone_rank", "--lone-rank",
                      "Run one rank of those that share layers or sequences, and let collectives "
                      "take the time that they would take on the links of this machine, or on "
                      "virtual:MACHINE on its own. Of a pipeline, one rank of each distinct stage, "
                      "one after the other, "
                      "whose times the schedule puts together"},
                     &T::lone_rank, any_text("NAME|FILE"))
                   .with_file(Field::File::perhaps);
  all.push_back(
      field({"threads", "--threads", "Kernel threads of the cpu; all processors otherwise"},
            &T::threads, whole_number(1, 4096))
          .if_said());
  all.push_back({.key = "pin",
                 .flag = "--pin",
                 .help = "Keep each rank on cores of its own, on cpu, or next to its GPU, on cuda",
                 .type = on_off(),
                 .get = [](const RunSettings& s) { return s.place.pinning == Pinning::cores; },
                 .set =
                     [](RunSettings& s, const nlohmann::json& json, const std::string&) {
                       s.place.pinning = json.get<bool>() ? Pinning::cores : Pinning::none;
                     }});
  all.push_back(
      field({"ranks", "--ranks",
             "What ranks are, on cpu or cuda; processes where a launcher has started several "
             "(docs/cluster.md), threads otherwise, but on several GPUs only if they are named"},
            &T::ranks, one_of(all_names<RanksAs>()))
          .if_said());
  all.push_back(field({"transport", "--transport",
                       "What carries tensors between GPUs of several processes; nccl where the "
                       "build has it, the host's memory otherwise"},
                      &T::transport, one_of(all_names<Transport>()))
                    .if_said());
  all.push_back(field({"deadline", "--deadline",
                       "Seconds that a rank waits for another before the run ends; 600 otherwise"},
                      &T::deadline, real_number(0.001, 1e9)));
  for (Field& field : all) field.group = FieldGroup::place;
  lone.group = FieldGroup::lone_rank;
  all.insert(all.begin() + 2, lone);
  return all;
}

}  // namespace frugal::harness
