// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

namespace hipress {

/// A cost, or another quantity, by size: straight lines between points. The last line goes on beyond the
/// points. Without points every cost is 0.
class CostTable {
 public:
  struct Point {
    double size = 0;
    double value = 0;
  };

  CostTable() = default;
  /// The points must be in the order of their sizes, and no two sizes may be equal.
  explicit CostTable(std::vector<Point> points) : points_(std::move(points)) {}

  bool empty() const { return points_.empty(); }

  double at(double size) const {
    if (points_.empty()) return 0.0;
    if (points_.size() == 1) return points_.front().value;
    auto above = std::lower_bound(points_.begin(), points_.end(), size,
                                  [](const Point& point, double wanted) { return point.size < wanted; });
    above = std::clamp(above, points_.begin() + 1, points_.end() - 1);
    const Point& from = *(above - 1);
    const double slope = (above->value - from.value) / (above->size - from.size);
    return std::max(0.0, from.value + slope * (size - from.size));
  }

 private:
  std::vector<Point> points_;
};

}  // namespace hipress
