//! Panels as SVG and PNG.

use plotters::backend::DrawingBackend;
use plotters::coord::Shift;
use plotters::drawing::DrawingAreaErrorKind;
use plotters::prelude::*;
use plotters::style::{FontStyle, register_font};

use super::table::number;
use super::{Figure, Panel, Series};
use crate::BenchError;

/// Pixels of a panel.
const PANEL: (u32, u32) = (480, 320);
/// Panels beside each other in a figure.
const COLUMNS: usize = 2;
/// The font of all plots. Where a viewer has no such font, any sans-serif does.
const FONT: &str = "sans-serif";
/// Colours that can be told apart, also by most who see few of them, on white and on black: those
/// of Okabe and Ito, the light ones darker. Further series have them again, paler.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(184, 122, 0),
    RGBColor(50, 145, 205),
    RGBColor(120, 120, 120),
    RGBColor(145, 95, 205),
];
/// Lines that help the eye, on white and on black.
const GRID: RGBAColor = RGBAColor(128, 128, 128, 0.3);
/// Pixels of a row of names below a plot.
const LEGEND_ROW: i32 = 18;

type Outcome<DB> = Result<(), DrawingAreaErrorKind<<DB as DrawingBackend>::ErrorType>>;

/// A panel by itself, as SVG: on what lies behind it, with axes and words in the colour of the text
/// around it.
///
/// # Errors
/// [`BenchError::NoPlots`] in a build without the feature `plots`.
pub fn panel_svg(panel: &Panel) -> Result<String, BenchError> {
    prepare_font();
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, PANEL).into_drawing_area();
        let drawn = draw(&root, panel).and_then(|()| root.present());
        drawn.map_err(|_| BenchError::Plot)?;
    }
    Ok(svg.replace("\"#000000\"", "\"currentColor\""))
}

/// All panels of a figure, as SVG.
///
/// # Errors
/// [`BenchError::NoPlots`] in a build without the feature `plots`.
pub fn figure_svg(figure: &Figure) -> Result<String, BenchError> {
    prepare_font();
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, size(figure)).into_drawing_area();
        draw_all(&root, figure).and_then(|()| root.present()).map_err(|_| BenchError::Plot)?;
    }
    Ok(svg)
}

/// All panels of a figure, as the bytes of a PNG file.
///
/// # Errors
/// [`BenchError::Plot`], and [`BenchError::NoPlots`] in a build without the feature `plots`.
pub fn figure_png(figure: &Figure) -> Result<Vec<u8>, BenchError> {
    prepare_font();
    let (width, height) = size(figure);
    let mut pixels = vec![0; width as usize * height as usize * 3];
    {
        let root = BitMapBackend::with_buffer(&mut pixels, (width, height)).into_drawing_area();
        draw_all(&root, figure).and_then(|()| root.present()).map_err(|_| BenchError::Plot)?;
    }
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    let written = encoder.write_header().and_then(|mut writer| writer.write_image_data(&pixels));
    written.map_err(|_| BenchError::Plot)?;
    Ok(bytes)
}

/// Makes the font known, once or again.
fn prepare_font() {
    for style in [FontStyle::Normal, FontStyle::Bold] {
        // A font that is always the same, and valid.
        let _ = register_font(FONT, style, epaint_default_fonts::UBUNTU_LIGHT);
    }
}

fn grid(figure: &Figure) -> (usize, usize) {
    let panels = figure.panels.len().max(1);
    let columns = panels.min(COLUMNS);
    (panels.div_ceil(columns), columns)
}

fn size(figure: &Figure) -> (u32, u32) {
    let (rows, columns) = grid(figure);
    (PANEL.0 * columns as u32, PANEL.1 * rows as u32)
}

fn draw_all<DB: DrawingBackend>(root: &DrawingArea<DB, Shift>, figure: &Figure) -> Outcome<DB> {
    root.fill(&WHITE)?;
    for (area, panel) in root.split_evenly(grid(figure)).iter().zip(&figure.panels) {
        draw(area, panel)?;
    }
    Ok(())
}

/// How values lie along an axis.
#[derive(Clone, Copy)]
enum Scale {
    Linear,
    /// By their logarithms to this base.
    Logarithmic(f64),
}

impl Scale {
    /// Of an axis of a panel: powers of ten are told where there are two of them, or else powers of
    /// two.
    fn of(panel: &Panel, axis: usize) -> Self {
        if !panel.logarithmic[axis] {
            return Self::Linear;
        }
        let values = || {
            panel.series.iter().flat_map(|series| &series.points).map(|point| point[axis].max(1e-9))
        };
        let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
        Self::Logarithmic(if most / least >= 100.0 { 10.0 } else { 2.0 })
    }

    fn drawn(self, value: f64) -> f64 {
        match self {
            Self::Linear => value,
            Self::Logarithmic(base) => value.max(1e-9).log(base),
        }
    }

    /// What stands at a place; nothing between powers.
    fn label(self, place: f64) -> String {
        match self {
            Self::Linear => number(place),
            Self::Logarithmic(base) if (place - place.round()).abs() < 0.01 => {
                number(base.powf(place.round()))
            }
            Self::Logarithmic(_) => String::new(),
        }
    }
}

/// The ends of an axis, with room around them.
fn ends(values: impl Iterator<Item = f64>, from_zero: bool) -> (f64, f64) {
    let (least, most) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| {
        (least.min(value), most.max(value))
    });
    if !least.is_finite() {
        return (0.0, 1.0);
    }
    let least = if from_zero { least.min(0.0) } else { least };
    let room = (most - least).max(most.abs() * 1e-3).max(1e-9) * 0.06;
    (if from_zero { least } else { least - room }, most + 2.0 * room)
}

fn draw<DB: DrawingBackend>(area: &DrawingArea<DB, Shift>, panel: &Panel) -> Outcome<DB> {
    let scales = [Scale::of(panel, 0), Scale::of(panel, 1)];
    let drawn = |point: [f64; 2]| (scales[0].drawn(point[0]), scales[1].drawn(point[1]));
    let points =
        || panel.series.iter().flat_map(|series| &series.points).map(|point| drawn(*point));
    if points().next().is_none() {
        area.draw(&Text::new(
            format!("{}: no engine of this figure is there yet", panel.title),
            (20, 20),
            (FONT, 14),
        ))?;
        return Ok(());
    }
    let area = &below_legend(area, &panel.series)?;
    let bars = panel.places.is_some();
    let (left, right) = match &panel.places {
        Some(places) => (-0.5, places.len() as f64 - 0.5),
        None => ends(points().map(|point| point.0), false),
    };
    let (low, high) = ends(points().map(|point| point.1), !panel.logarithmic[1]);
    let below = |value: &f64| match &panel.places {
        Some(places) if (value - value.round()).abs() < 0.01 => {
            places.get(value.round() as usize).cloned().unwrap_or_default()
        }
        Some(_) => String::new(),
        None => scales[0].label(*value),
    };
    let beside = |value: &f64| scales[1].label(*value);
    let longest = [low, high].map(|value| beside(&value.round()).len().max(beside(&value).len()));
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, (FONT, 16))
        .margin(10)
        .x_label_area_size(if panel.x_label.is_empty() { 26 } else { 44 })
        .y_label_area_size(32 + 7 * longest[0].max(longest[1]) as u32)
        .build_cartesian_2d(left..right, low..high)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .x_desc(&panel.x_label)
        .y_desc(&panel.y_label)
        .x_labels(if bars {
            panel.places.as_ref().map_or(5, |places| 2 * places.len() + 1)
        } else {
            7
        })
        .y_labels(7)
        .x_label_formatter(&below)
        .y_label_formatter(&beside)
        .label_style((FONT, 12))
        .axis_desc_style((FONT, 13))
        .draw()?;
    let width = 0.8 / panel.series.len().max(1) as f64;
    for (place, series) in panel.series.iter().enumerate() {
        let style = style(place, series);
        let all = series.points.iter().map(|point| drawn(*point));
        if bars {
            let bar = |(x, y): (f64, f64)| {
                let start = x - 0.4 + width * place as f64;
                Rectangle::new([(start, low.max(0.0)), (start + width * 0.92, y)], style)
            };
            chart.draw_series(all.map(bar))?;
        } else {
            let stroke = style.stroke_width(if series.from_paper { 1 } else { 2 });
            chart.draw_series(LineSeries::new(all.clone(), stroke))?;
            if !series.from_paper {
                chart.draw_series(all.map(|point| Circle::new(point, 3, style)))?;
            }
        }
    }
    Ok(())
}

/// How the series at a place is drawn: what the paper says is hollow.
fn style(place: usize, series: &Series) -> ShapeStyle {
    let strength = if place < COLOURS.len() { 1.0 } else { 0.55 };
    let colour = COLOURS[place % COLOURS.len()].mix(strength);
    ShapeStyle { color: colour, filled: !series.from_paper, stroke_width: 1 }
}

/// Writes the names of all series into the last rows of an area, as many as they need, and gives
/// what is left of it.
fn below_legend<DB: DrawingBackend>(
    area: &DrawingArea<DB, Shift>,
    all: &[Series],
) -> Result<DrawingArea<DB, Shift>, DrawingAreaErrorKind<DB::ErrorType>> {
    const LEFT: i32 = 16;
    let (width, height) = area.dim_in_pixel();
    let font = (FONT, 12).into_text_style(area);
    let (mut places, mut x, mut row) = (Vec::new(), LEFT, 0);
    for series in all {
        let needed = 32 + area.estimate_text_size(&series.name, &font)?.0 as i32;
        if x > LEFT && x + needed > width as i32 {
            (x, row) = (LEFT, row + 1);
        }
        places.push((x, row));
        x += needed;
    }
    let top = height as i32 - (row + 1) * LEGEND_ROW - 4;
    let (left, legend) = area.split_vertically(top);
    for (place, (series, (x, row))) in all.iter().zip(places).enumerate() {
        let y = row * LEGEND_ROW;
        legend.draw(&Rectangle::new([(x, y + 3), (x + 12, y + 11)], style(place, series)))?;
        legend.draw(&Text::new(series.name.clone(), (x + 16, y + 1), font.clone()))?;
    }
    Ok(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(places: Option<Vec<String>>, logarithmic: [bool; 2]) -> Panel {
        let series = |name: &str, from_paper| Series {
            name: name.into(),
            from_paper,
            points: vec![[0.0, 5.0], [1.0, 7.0], [2.0, 70.0]],
        };
        Panel {
            title: "a < b".into(),
            x_label: "x".into(),
            y_label: "y".into(),
            places,
            logarithmic,
            series: vec![series("first", false), series("second", true)],
        }
    }

    fn figure(panels: Vec<Panel>) -> Figure {
        let text = String::new;
        let (left_out, claims, notes) = (Vec::new(), Vec::new(), Vec::new());
        Figure {
            name: text(),
            title: text(),
            source: text(),
            command: text(),
            left_out,
            panels,
            claims,
            notes,
        }
    }

    #[test]
    fn curves_and_bars_are_drawn_and_words_escaped() {
        let names = Some(["insert", "find", "scan"].map(String::from).to_vec());
        let panels = vec![
            panel(None, [false, false]),
            panel(None, [true, true]),
            panel(names, [false, false]),
        ];
        for panel in &panels {
            let svg = panel_svg(panel).unwrap();
            assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
            assert!(
                svg.contains("first") && svg.contains("second") && svg.contains("a &lt; b"),
                "{svg}"
            );
        }
        let bars = panel_svg(&panels[2]).unwrap();
        assert!(bars.contains("insert") && bars.contains("currentColor"));
        assert!(!bars.contains("#000000") && !bars.contains("#FFFFFF"), "it lies on any colour");
        let svg = figure_svg(&figure(panels)).unwrap();
        assert!(svg.contains("width=\"960\" height=\"640\""), "{}", &svg[..200]);
    }

    #[test]
    fn a_panel_of_engines_that_are_not_there_says_so() {
        let empty = Panel { series: Vec::new(), ..panel(None, [false, false]) };
        assert!(panel_svg(&empty).unwrap().contains("no engine of this figure"));
        let one = Panel {
            series: vec![Series { name: "a".into(), from_paper: false, points: vec![[3.0, 0.0]] }],
            ..empty
        };
        assert!(panel_svg(&one).unwrap().contains("circle"), "a single point is drawn too");
    }

    /// Of WCAG.
    fn luminance(colour: RGBColor) -> f64 {
        let part = |part: u8| match f64::from(part) / 255.0 {
            dark if dark <= 0.04045 => dark / 12.92,
            light => ((light + 0.055) / 1.055).powf(2.4),
        };
        0.2126 * part(colour.0) + 0.7152 * part(colour.1) + 0.0722 * part(colour.2)
    }

    #[test]
    fn colours_are_seen_on_white_and_on_dark() {
        let dark = luminance(RGBColor(0x16, 0x1a, 0x1e));
        for colour in COLOURS {
            let seen = luminance(colour) + 0.05;
            assert!(1.05 / seen >= 3.0 && seen / (dark + 0.05) >= 3.0, "{colour:?}");
        }
    }

    #[test]
    fn a_png_is_an_image() {
        let bytes = figure_png(&figure(vec![panel(None, [false, false])])).unwrap();
        assert!(bytes.starts_with(b"\x89PNG") && bytes.len() > 2000);
        let decoder = png::Decoder::new(std::io::Cursor::new(bytes));
        assert_eq!(decoder.read_info().unwrap().info().size(), PANEL);
    }
}
