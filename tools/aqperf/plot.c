/* Draws the results as an SVG picture: a panel for each unit, with logarithmic axes for sizes and
 * figures, and the machine's limits as dashed lines in the color of their pattern. */
#include "perf.h"
#include <math.h>

enum {
    PANEL_WIDTH = 500,
    PLOT_LEFT = 74,  /* from the left of a panel to its axis */
    PLOT_RIGHT = 18, /* from the end of the axis to the right of the panel */
    PLOT_TOP = 106,
    PLOT_HEIGHT = 330,
    LEGEND_TOP = PLOT_TOP + PLOT_HEIGHT + 66,
    LEGEND_STEP = 22
};

/* Colors that can be distinguished with any color vision (Okabe and Ito), for white and for dark
 * backgrounds. */
static const struct color {
    const char *light, *dark;
} colors[] = {{"#0072b2", "#3d9fe0"}, {"#d55e00", "#f0772b"}, {"#009e73", "#2fc89b"},
              {"#cc79a7", "#e29cc4"}, {"#b8860b", "#e0b040"}, {"#56b4e9", "#8fd3ff"},
              {"#555555", "#b0b0b0"}, {"#8b1a1a", "#d86060"}};
enum { COLORS = sizeof colors / sizeof colors[0] };

static const char *const titles[UNIT_COUNT] = {[UNIT_NS] = "Latency: less is better",
                                               [UNIT_RATE] = "Message rate: more is better",
                                               [UNIT_BANDWIDTH] = "Bandwidth: more is better"};

struct panel {
    FILE *out;
    const struct perf *perf;
    enum unit unit;
    int left;         /* in the picture */
    int first, last;  /* x axis: log2 of the sizes */
    int start;        /* the axis starts at `first`, or before it for patterns without a size */
    double low, high; /* y axis: log10 of the figures */
};

/* The position of a size; patterns without a size are at the left. */
static double x_of(const struct panel *panel, size_t size)
{
    double at = size == 0 ? panel->start : log2((double)size);
    double span = panel->last > panel->start ? panel->last - panel->start : 1;
    double width = PANEL_WIDTH - PLOT_LEFT - PLOT_RIGHT - 40;
    return panel->left + PLOT_LEFT + 20 + (at - panel->start) / span * width;
}

static double y_of(const struct panel *panel, double value)
{
    double part = (log10(value) - panel->low) / (panel->high - panel->low);
    return PLOT_TOP + PLOT_HEIGHT * (1 - part);
}

static bool shows(const struct panel *panel, size_t i)
{
    return panel->perf->results[i].row.pattern->kind->unit == panel->unit;
}

/* Fit the x axis: from the smallest to the largest size, plus a position for results without a
 * size. */
static void fit_sizes(struct panel *panel)
{
    size_t smallest = SIZE_MAX, largest = 1;
    bool without = false;
    for (size_t i = 0; i < panel->perf->result_count; i++) {
        size_t size = panel->perf->results[i].row.size;
        if (!shows(panel, i)) continue;
        without |= size == 0;
        if (size > 0 && size < smallest) smallest = size;
        if (size > largest) largest = size;
    }
    if (smallest > largest) smallest = largest;
    panel->first = (int)floor(log2((double)smallest));
    panel->last = (int)ceil(log2((double)largest));
    panel->start = panel->first - (without ? 2 : 0);
}

/* Fit the axes to the results; returns false if there is none to show. */
static bool fit(struct panel *panel)
{
    double low = 1e300, high = 0;
    for (size_t i = 0; i < panel->perf->result_count; i++) {
        const struct result *result = &panel->perf->results[i];
        if (!shows(panel, i)) continue;
        low = fmin(low, result->min);
        high = fmax(high, result->max);
        if (result->limit <= 0) continue;
        low = fmin(low, result->limit);
        high = fmax(high, result->limit);
    }
    if (high <= 0) return false;
    panel->low = floor(log10(low) * 3 - 0.3) / 3;
    panel->high = ceil(log10(high) * 3 + 0.3) / 3;
    double missing = 1.2 - (panel->high - panel->low); /* at least a decade, to have labels */
    if (missing > 0) {
        panel->low -= missing / 2;
        panel->high += missing / 2;
    }
    fit_sizes(panel);
    return true;
}

static void text(FILE *out, double x, double y, const char *style, const char *content)
{
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" %s>%s</text>\n", x, y, style, content);
}

static void y_label(const struct panel *panel, double value, char label[static 24])
{
    static const char *const times[] = {"ns", "us", "ms", "s"};
    if (panel->unit != UNIT_NS) {
        snprintf(label, 24, "%g %s", value, unit_names[panel->unit]);
        return;
    }
    size_t step = 0;
    while (value > 999.5 && step < 3) {
        value /= 1000;
        step++;
    }
    snprintf(label, 24, "%g %s", value, times[step]);
}

static void draw_y_axis(const struct panel *panel)
{
    double left = panel->left + PLOT_LEFT, right = panel->left + PANEL_WIDTH - PLOT_RIGHT;
    bool narrow = panel->high - panel->low < 2.2; /* with few decades, also label 2 and 5 */
    for (int decade = (int)floor(panel->low); decade <= (int)ceil(panel->high); decade++)
        for (int digit = 1; digit <= 9; digit++) {
            double value = digit * pow(10, decade), y = y_of(panel, value);
            if (y < PLOT_TOP - 0.1 || y > PLOT_TOP + PLOT_HEIGHT + 0.1) continue;
            bool labeled = digit == 1 || (narrow && (digit == 2 || digit == 5));
            fprintf(panel->out, "<path d=\"M%.1f %.1fH%.1f\" class=\"%s\"/>\n", left, y, right,
                    labeled ? "grid" : "fine");
            char label[24];
            y_label(panel, value, label);
            if (labeled)
                text(panel->out, left - 8, y + 4, "class=\"tick\" text-anchor=\"end\"", label);
        }
}

static void draw_size(const struct panel *panel, size_t size, const char *label)
{
    double x = x_of(panel, size);
    fprintf(panel->out, "<path d=\"M%.1f %dV%d\" class=\"fine\"/>\n", x, PLOT_TOP,
            PLOT_TOP + PLOT_HEIGHT);
    text(panel->out, x, PLOT_TOP + PLOT_HEIGHT + 20, "class=\"tick\" text-anchor=\"middle\"",
         label);
}

static void draw_x_axis(const struct panel *panel)
{
    int span = panel->last - panel->start, every = span <= 9 ? 1 : span <= 18 ? 2 : 4;
    if (panel->start < panel->first) draw_size(panel, 0, "none");
    for (int step = panel->first; step <= panel->last; step += every) {
        char label[16];
        draw_size(panel, (size_t)1 << step, report_size((size_t)1 << step, label));
    }
    text(panel->out, panel->left + (PLOT_LEFT + PANEL_WIDTH - PLOT_RIGHT) / 2.,
         PLOT_TOP + PLOT_HEIGHT + 42, "class=\"tick\" text-anchor=\"middle\"", "payload in bytes");
}

/* Draw a line through the medians of a pattern, or through its limits; a single limit is a short
 * dash. */
static void draw_line(const struct panel *panel, const struct pattern *pattern, bool limit)
{
    size_t points = 0;
    double x = 0, y = 0, interval_ns = 0; /* one line per interval */
    fprintf(panel->out, "<path d=\"");
    for (size_t i = 0; i < panel->perf->result_count; i++) {
        const struct result *result = &panel->perf->results[i];
        double value = limit ? result->limit : result->median;
        if (result->row.pattern != pattern || value <= 0) continue;
        x = x_of(panel, result->row.size);
        y = y_of(panel, value);
        bool next = points++ > 0 && result->row.interval_ns == interval_ns;
        interval_ns = result->row.interval_ns;
        fprintf(panel->out, "%c%.1f %.1f", next ? 'L' : 'M', x, y);
    }
    if (limit && points == 1) fprintf(panel->out, "M%.1f %.1fh28", x - 14, y);
    fprintf(panel->out, "\" class=\"%s\"/>\n", limit ? "limit" : "line");
}

static void draw_figures(const struct panel *panel, const struct pattern *pattern)
{
    draw_line(panel, pattern, false);
    for (size_t i = 0; i < panel->perf->result_count; i++) {
        const struct result *result = &panel->perf->results[i];
        if (result->row.pattern != pattern) continue;
        double x = x_of(panel, result->row.size);
        char label[16], interval[16] = "";
        if (result->row.interval_ns > 0) report_time(result->row.interval_ns, interval);
        fprintf(panel->out, "<path d=\"M%.1f %.1fV%.1f\" class=\"spread\"/>\n", x,
                y_of(panel, result->min), y_of(panel, result->max));
        fprintf(panel->out,
                "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\"><title>%s %s %s: %.4g %s "
                "(%.4g to %.4g)</title></circle>\n",
                x, y_of(panel, result->median), pattern->name, report_size(result->row.size, label),
                interval, result->median, unit_names[panel->unit], result->min, result->max);
    }
}

static void draw_legend(const struct panel *panel, size_t place, const struct pattern *pattern)
{
    double x = panel->left + PLOT_LEFT + (place % 2 == 0 ? 0 : 200);
    double y = LEGEND_TOP + (double)(place / 2) * LEGEND_STEP;
    fprintf(panel->out,
            "<path d=\"M%.1f %.1fh26\" class=\"line\"/><circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\"/>\n",
            x, y, x + 13, y);
    text(panel->out, x + 34, y + 4, "class=\"key\"", pattern->name);
}

static bool has_results(const struct perf *perf, const struct pattern *pattern)
{
    for (size_t i = 0; i < perf->result_count; i++)
        if (perf->results[i].row.pattern == pattern) return true;
    return false;
}

static void draw_panel(const struct panel *panel)
{
    text(panel->out, panel->left + PLOT_LEFT, PLOT_TOP - 12, "class=\"panel\"",
         titles[panel->unit]);
    draw_y_axis(panel);
    draw_x_axis(panel);
    fprintf(panel->out, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" class=\"frame\"/>\n",
            panel->left + PLOT_LEFT, PLOT_TOP, PANEL_WIDTH - PLOT_LEFT - PLOT_RIGHT, PLOT_HEIGHT);
    size_t place = 0;
    for (size_t id = 0; id < PATTERN_COUNT; id++) {
        const struct pattern *pattern = &patterns[id];
        if (pattern->kind->unit != panel->unit || !has_results(panel->perf, pattern)) continue;
        fprintf(panel->out, "<g class=\"c%zu\">\n", place % COLORS);
        draw_line(panel, pattern, true);
        draw_figures(panel, pattern);
        draw_legend(panel, place++, pattern);
        fprintf(panel->out, "</g>\n");
    }
}

/* Colors follow the reader's preference, even if the picture is embedded in a page. */
static void draw_style(FILE *out)
{
    fputs("<style>.back{fill:#ffffff}.grid{stroke:#c8c8c8}.fine{stroke:#eeeeee}"
          ".frame{fill:none;stroke:#777777}text{fill:#111111}.tick{font-size:12px;fill:#444444}"
          ".key{font-size:13px}.panel{font-size:15px;font-weight:bold}.title{font-size:18px}"
          "circle{fill:currentColor}.line,.limit,.spread{fill:none;stroke:currentColor}"
          ".line{stroke-width:2}.limit{stroke-width:1.6;stroke-dasharray:5 4}\n",
          out);
    for (size_t i = 0; i < COLORS; i++)
        fprintf(out, ".c%zu{color:%s}", i, colors[i].light);
    fputs("\n@media (prefers-color-scheme:dark){.back{fill:#14181d}.grid{stroke:#4a545f}"
          ".fine{stroke:#2a323a}.frame{stroke:#8b959f}text{fill:#dde3ea}.tick{fill:#aeb8c3}",
          out);
    for (size_t i = 0; i < COLORS; i++)
        fprintf(out, ".c%zu{color:%s}", i, colors[i].dark);
    fputs("}</style>\n", out);
}

static void draw_head(FILE *out, const struct perf *perf, int width, int height)
{
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "viewBox=\"0 0 %d %d\" font-family=\"Helvetica, Arial, sans-serif\">\n",
            width, height, width, height);
    draw_style(out);
    fputs("<rect width=\"100%\" height=\"100%\" class=\"back\"/>\n", out);
    char title[200];
    snprintf(title, sizeof title, "Aqueduct over %s, %u rank%s on %d core%s", perf->transport,
             perf->ranks, perf->ranks == 1 ? "" : "s", perf->cores, perf->cores == 1 ? "" : "s");
    text(out, PLOT_LEFT, 36, "class=\"title\"", title);
    text(out, PLOT_LEFT, 56, "class=\"tick\"",
         "medians and spread; dashed: the machine's own limit in the same run");
}

/* The height of the legend below the panels, with two patterns per row. */
static int legend_height(const struct panel *panels, int count)
{
    int max = 0;
    for (int i = 0; i < count; i++) {
        int keys = 0;
        for (size_t id = 0; id < PATTERN_COUNT; id++)
            keys += patterns[id].kind->unit == panels[i].unit &&
                    has_results(panels[i].perf, &patterns[id]);
        if (keys > max) max = keys;
    }
    return (max + 1) / 2 * LEGEND_STEP;
}

void plot_write(FILE *out, const struct perf *perf)
{
    static const enum unit order[] = {UNIT_NS, UNIT_BANDWIDTH, UNIT_RATE};
    struct panel panels[UNIT_COUNT];
    int count = 0;
    for (size_t i = 0; i < UNIT_COUNT; i++) {
        struct panel panel = {
            .out = out, .perf = perf, .unit = order[i], .left = count * PANEL_WIDTH};
        if (fit(&panel)) panels[count++] = panel;
    }
    draw_head(out, perf, (count > 0 ? count : 1) * PANEL_WIDTH,
              LEGEND_TOP + legend_height(panels, count));
    for (int i = 0; i < count; i++)
        draw_panel(&panels[i]);
    fprintf(out, "</svg>\n");
}
