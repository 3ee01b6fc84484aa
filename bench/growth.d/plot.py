"""A plot of lines over a logarithmic axis, as SVG."""
import math
from xml.sax.saxutils import escape

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 360, 95, 20, 50, 55
COLORS = ('#1f5fbf', '#c2410c', '#15803d')


def plot(title, x_title, y_title, xs, series):
    """SVG. `series`: name -> a value for each of xs, which are 1 or more; the other axis begins at 0."""
    least, most = math.log10(xs[0]), math.log10(xs[-1])
    top, step = scale(max((max(values) for values in series.values()), default=1))

    def at_x(x): return LEFT + (WIDTH - LEFT - RIGHT) * ((math.log10(x) - least) / (most - least) if most > least else 0.5)
    def at_y(y): return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * y / top

    parts = [text(WIDTH / 2, 20, title, size=15), text(WIDTH / 2, HEIGHT - 12, x_title),
             text(18, (TOP + HEIGHT - BOTTOM) / 2, y_title, turned=True)]
    for i in range(round(top / step) + 1):
        parts += [line(LEFT, at_y(i * step), WIDTH - RIGHT, at_y(i * step), '#ddd'),
                  text(LEFT - 8, at_y(i * step) + 4, f'{i * step:,g}', anchor='end')]
    for x in xs:
        parts += [line(at_x(x), HEIGHT - BOTTOM, at_x(x), HEIGHT - BOTTOM + 5, '#444'),
                  text(at_x(x), HEIGHT - BOTTOM + 20, f'{x:,}')]
    for i, (name, values) in enumerate(series.items()):
        color, points = COLORS[i % len(COLORS)], [(at_x(x), at_y(y)) for x, y in zip(xs, values)]
        path = ' '.join(f'{x:.1f},{y:.1f}' for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>' for x, y in points]
        parts.append(text(LEFT + 10 + i * 170, 40, name, anchor='start', color=color))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">\n'
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>\n' + '\n'.join(parts) + '\n</svg>\n')


def scale(most):
    """The end of an axis from 0, and the distance of its lines: 1, 2 or 5 times a power of ten, five of them or so."""
    rough = (most or 1) / 5
    power = 10 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    return step * math.ceil((most or 1) / step), step


def text(x, y, words, size=12, anchor='middle', color='#222', turned=False):
    turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turned else ''
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{color}"{turn}>{escape(words)}</text>'


def line(x1, y1, x2, y2, color):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}"/>'
