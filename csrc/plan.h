// A pair table made ready for the kernel.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "turn.h"

namespace ropewalk {

namespace nb = nanobind;

using Doubles = nb::ndarray<const double, nb::c_contig, nb::device::cpu>;
using Integers = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Its runs and gaps are found, and the arrays that the kernel reads are copied, all but the tables.
class Plan {
  public:
    Plan(int64_t head_dim, int64_t axes, Integers first, Integers second, Integers column_axis, Doubles speeds)
        : speeds_(speeds.data(), speeds.data() + speeds.size()),
          column_axis_(column_axis.data(), column_axis.data() + column_axis.size()) {
        const int64_t pairs = static_cast<int64_t>(first.size());
        const int64_t columns = static_cast<int64_t>(speeds_.size());
        const bool sizes = static_cast<int64_t>(second.size()) == pairs && columns >= pairs &&
                           static_cast<int64_t>(column_axis_.size()) == columns &&
                           (columns == pairs || columns == 2 * pairs) && head_dim > 0 && axes > 0;
        if (!sizes) throw nb::value_error("the columns of the pair table do not fit one another");
        std::vector<char> turned(static_cast<size_t>(head_dim), 0);
        for (int64_t i = 0; i < pairs; ++i)
            for (const int64_t channel : {first.data()[i], second.data()[i]}) {
                if (channel < 0 || channel >= head_dim || turned[static_cast<size_t>(channel)])
                    throw nb::value_error("a channel of the pair table is outside the head, or in two pairs");
                turned[static_cast<size_t>(channel)] = 1;
            }
        for (const int64_t axis : column_axis_)
            if (axis < 0 || axis >= axes) throw nb::value_error("an axis of the pair table is out of range");
        for (const double speed : speeds_) fastest_ = std::max(fastest_, std::fabs(speed));
        find_runs(first.data(), second.data(), pairs);
        find_gaps(turned);
        table_ = {head_dim,  pairs,   columns, axes,    speeds_.data(), column_axis_.data(),
                  nullptr,   nullptr, nullptr, nullptr, runs_.data(),   static_cast<int64_t>(runs_.size()),
                  gaps_.data(), static_cast<int64_t>(gaps_.size())};
    }

    // Without tables every angle is computed anew.
    void set_tables(Doubles fine_cos, Doubles fine_sin, Doubles coarse_cos, Doubles coarse_sin) {
        const Doubles given[] = {fine_cos, fine_sin, coarse_cos, coarse_sin};
        for (const Doubles &one : given)
            if (one.ndim() != 2 || one.shape(0) != static_cast<size_t>(rows) ||
                one.shape(1) != static_cast<size_t>(table_.columns))
                throw nb::value_error("a table must have 1024 rows and a column for each angle");
        kept_.assign(given, given + 4);
        table_.fine_cos = fine_cos.data();
        table_.fine_sin = fine_sin.data();
        table_.coarse_cos = coarse_cos.data();
        table_.coarse_sin = coarse_sin.data();
    }

    const Table &table() const { return table_; }

    int64_t run_count() const { return table_.run_count; }

    double fastest() const { return fastest_; }

  private:
    void find_runs(const int64_t *first, const int64_t *second, int64_t pairs) {
        for (int64_t i = 0; i < pairs; ++i) {
            if (!runs_.empty()) {
                Run &run = runs_.back();
                const int64_t step = run.interleaved ? 2 : 1;
                if (first[i] == run.first + step * run.count && second[i] == run.second + step * run.count) {
                    ++run.count;
                    continue;
                }
            }
            runs_.push_back({first[i], second[i], i, 1, second[i] == first[i] + 1});
        }
    }

    void find_gaps(const std::vector<char> &turned) {
        const int64_t width = static_cast<int64_t>(turned.size());
        for (int64_t c = 0; c < width; ++c) {
            if (turned[static_cast<size_t>(c)]) continue;
            if (!gaps_.empty() && gaps_.back().start + gaps_.back().count == c)
                ++gaps_.back().count;
            else
                gaps_.push_back({c, 1});
        }
    }

    std::vector<double> speeds_;
    std::vector<int64_t> column_axis_;
    std::vector<Run> runs_;
    std::vector<Gap> gaps_;
    std::vector<Doubles> kept_;
    Table table_;
    double fastest_ = 0;
};

}  // namespace ropewalk
