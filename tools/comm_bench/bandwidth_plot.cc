// SPDX-License-Identifier: Apache-2.0

#include "shoal/tools/comm_bench/bandwidth_plot.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "shoal/tools/comm_bench/results.h"
#include "shoal/tools/common/units.h"

namespace shoal::comm_bench {
namespace {

// The picture, and the frame of the axes in it, in pixels.
constexpr double kWidth = 960;
constexpr double kLeft = 80;
constexpr double kRight = 930;
constexpr double kTop = 40;
constexpr double kBottom = 440;
constexpr double kLegendTop = 490;
constexpr double kLegendLine = 20;

// Distinguishable also by those who see fewer colours (Okabe and Ito 2008).
constexpr absl::string_view kColours[] = {"#0072b2", "#d55e00", "#009e73",
                                          "#cc79a7", "#56b4e9", "#e69f00",
                                          "#000000"};

struct Point {
  double bytes;
  double bandwidth;  // bytes a second
};

struct Curve {
  std::string name;
  std::size_t colour = 0;
  bool dashed = false;
  std::vector<Point> points;
};

std::string Escaped(absl::string_view text) {
  return absl::StrReplaceAll(
      text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

Curve MakeCurve(const std::string& name, const Series& series,
                std::optional<Timing> Row::*half) {
  Curve curve;
  curve.name = name;
  for (const Row& row : series.rows) {
    const std::optional<Timing>& timing = row.*half;
    if (!timing.has_value() || row.bytes <= 0 || timing->bus_bandwidth <= 0) {
      continue;
    }
    curve.points.push_back(
        {static_cast<double>(row.bytes), timing->bus_bandwidth});
  }
  return curve;
}

std::string SeriesName(const NamedResults& run, const Series& series) {
  std::string name;
  if (!run.name.empty()) absl::StrAppend(&name, run.name, ": ");
  absl::StrAppend(&name, series.collective, ", ", series.dtype);
  if (series.op != "none") absl::StrAppend(&name, " ", series.op);
  if (series.algorithm != "auto")
    absl::StrAppend(&name, ", ", series.algorithm);
  if (series.wire != "data") absl::StrAppend(&name, ", wire ", series.wire);
  return absl::StrCat(name, ", ", run.results.world_size, " ranks");
}

std::vector<Curve> MakeCurves(const std::vector<NamedResults>& runs) {
  std::vector<Curve> curves;
  std::size_t colour = 0;
  for (const NamedResults& run : runs) {
    for (const Series& series : run.results.series) {
      const std::string name = SeriesName(run, series);
      Curve in_place =
          MakeCurve(absl::StrCat(name, ", in place"), series, &Row::in_place);
      Curve out_of_place = MakeCurve(absl::StrCat(name, ", out of place"),
                                     series, &Row::out_of_place);
      out_of_place.dashed = true;
      for (Curve* curve : {&in_place, &out_of_place}) {
        if (curve->points.empty()) continue;
        curve->colour = colour % std::size(kColours);
        curves.push_back(std::move(*curve));
      }
      ++colour;
    }
  }
  return curves;
}

// A logarithmic axis from `low` to `high`, drawn from `from` to `to` pixels.
struct Axis {
  double low, high, from, to;

  double At(double value) const {
    return from + (to - from) * std::log(value / low) / std::log(high / low);
  }
};

// The axes around all points: sizes to powers of two, bandwidths to 1, 2 or 5
// times a power of ten.
double Below(double value) {
  const double decade = std::pow(10, std::floor(std::log10(value)));
  for (const double step : {5.0, 2.0}) {
    if (value >= step * decade) return step * decade;
  }
  return decade;
}

double Next(double step) {
  const double decade = std::pow(10, std::floor(std::log10(step * 1.01)));
  return step < 1.5 * decade ? 2 * decade
         : step < 3 * decade ? 5 * decade
                             : 10 * decade;
}

std::pair<Axis, Axis> MakeAxes(const std::vector<Curve>& curves) {
  Axis x{curves[0].points[0].bytes, 0, kLeft, kRight};
  Axis y{curves[0].points[0].bandwidth, 0, kBottom, kTop};
  for (const Curve& curve : curves) {
    for (const Point& point : curve.points) {
      x.low = std::min(x.low, point.bytes);
      x.high = std::max(x.high, point.bytes);
      y.low = std::min(y.low, point.bandwidth);
      y.high = std::max(y.high, point.bandwidth);
    }
  }
  x.low = std::exp2(std::floor(std::log2(x.low)));
  x.high = std::max(2 * x.low, std::exp2(std::ceil(std::log2(x.high))));
  y.low = Below(y.low);
  y.high = Next(Below(y.high));
  return {x, y};
}

void Line(double x1, double y1, double x2, double y2, std::string* svg) {
  absl::StrAppendFormat(svg,
                        "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" "
                        "y2=\"%.1f\" stroke=\"#dddddd\"/>\n",
                        x1, y1, x2, y2);
}

void Text(double x, double y, absl::string_view anchor, absl::string_view text,
          std::string* svg) {
  absl::StrAppendFormat(
      svg, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", x, y,
      anchor, Escaped(text));
}

void DrawAxes(const Axis& x, const Axis& y, std::string* svg) {
  // Every power of two as far as there is room for its name.
  const double doublings = std::log2(x.high / x.low);
  const double step = std::exp2(std::ceil(doublings / 13));
  for (double bytes = x.low; bytes <= x.high * 1.01; bytes *= step) {
    Line(x.At(bytes), kTop, x.At(bytes), kBottom, svg);
    Text(x.At(bytes), kBottom + 18, "middle",
         tools::FormatBytes(static_cast<std::int64_t>(bytes)), svg);
  }
  const bool few = y.high / y.low > 1e5;
  for (double rate = y.low; rate <= y.high * 1.01; rate = Next(rate)) {
    const double mantissa =
        rate / std::pow(10, std::floor(std::log10(rate * 1.01)));
    if (few && mantissa > 1.5) continue;
    Line(kLeft, y.At(rate), kRight, y.At(rate), svg);
    Text(kLeft - 6, y.At(rate) + 4, "end", tools::FormatBandwidth(rate), svg);
  }
  absl::StrAppendFormat(svg,
                        "<rect x=\"%.0f\" y=\"%.0f\" width=\"%.0f\" "
                        "height=\"%.0f\" fill=\"none\" stroke=\"#444444\"/>\n",
                        kLeft, kTop, kRight - kLeft, kBottom - kTop);
  Text((kLeft + kRight) / 2, kBottom + 38, "middle", "size", svg);
  Text(kLeft, kTop - 14, "start", "bus bandwidth", svg);
}

std::string StrokeOf(const Curve& curve) {
  return absl::StrCat("stroke=\"", kColours[curve.colour],
                      "\" stroke-width=\"2\"",
                      curve.dashed ? " stroke-dasharray=\"6 4\"" : "");
}

void DrawCurve(const Curve& curve, const Axis& x, const Axis& y,
               std::string* svg) {
  std::string points;
  for (const Point& point : curve.points) {
    absl::StrAppendFormat(&points, "%s%.1f,%.1f", points.empty() ? "" : " ",
                          x.At(point.bytes), y.At(point.bandwidth));
  }
  absl::StrAppend(svg, "<polyline fill=\"none\" ", StrokeOf(curve),
                  " points=\"", points, "\"/>\n");
  for (const Point& point : curve.points) {
    absl::StrAppendFormat(
        svg, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n",
        x.At(point.bytes), y.At(point.bandwidth), kColours[curve.colour]);
  }
}

void DrawLegend(const std::vector<Curve>& curves, std::string* svg) {
  double y = kLegendTop;
  for (const Curve& curve : curves) {
    absl::StrAppendFormat(
        svg, "<line x1=\"%.0f\" y1=\"%.1f\" x2=\"%.0f\" y2=\"%.1f\" %s/>\n",
        kLeft, y, kLeft + 40, y, StrokeOf(curve));
    Text(kLeft + 50, y + 4, "start", curve.name, svg);
    y += kLegendLine;
  }
}

}  // namespace

absl::StatusOr<std::string> BandwidthPlot(
    const std::vector<NamedResults>& runs) {
  const std::vector<Curve> curves = MakeCurves(runs);
  if (curves.empty()) {
    return absl::InvalidArgumentError(
        "there is no bandwidth to draw: it takes two ranks, and sizes above 0");
  }
  const auto [x, y] = MakeAxes(curves);
  const double height = kLegendTop + kLegendLine * curves.size();
  std::string svg = absl::StrFormat(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<svg xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\" "
      "width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"%.0f\" height=\"%.0f\" fill=\"white\"/>\n",
      kWidth, height, kWidth, height, kWidth, height);
  DrawAxes(x, y, &svg);
  for (const Curve& curve : curves) DrawCurve(curve, x, y, &svg);
  DrawLegend(curves, &svg);
  absl::StrAppend(&svg, "</svg>\n");
  return svg;
}

}  // namespace shoal::comm_bench
