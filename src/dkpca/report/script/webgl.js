// A hundred thousand points in one call: the graphics processor does the work.

const VERTEX = `
attribute vec3 position;
attribute vec4 color;
attribute float shape;
uniform vec4 across, up, depth;
uniform float size;
varying vec4 paint;
varying float form;
void main() {
  vec4 at = vec4(position, 1.0);
  float near = dot(depth, at);
  gl_Position = color.a > 0.0 ? vec4(dot(across, at), dot(up, at), 0.0, 1.0) : vec4(2.0, 2.0, 0.0, 1.0);
  gl_PointSize = size * (1.0 + 0.35 * near) * (shape > 0.5 ? 1.5 : 1.0);
  paint = vec4(color.rgb, color.a * (1.0 + 0.35 * min(near, 0.0)));
  form = shape;
}`;

// Distance from the edge of the shape, in pixels: within one pixel of it the color fades out.
const FRAGMENT = `
precision mediump float;
uniform highp float size;
varying vec4 paint;
varying float form;
void main() {
  vec2 at = 2.0 * gl_PointCoord - 1.0;
  float circle = 1.0 - length(at);
  float diamond = 1.0 - abs(at.x) - abs(at.y);
  float cross = 0.25 - min(abs(at.x - at.y), abs(at.x + at.y)) * 0.7;
  float hollow = 0.3 - abs(length(at) - 0.7);
  float frame = 0.25 - abs(0.75 - abs(at.x) - abs(at.y));
  float inside = form < 0.5 ? circle : form < 1.5 ? diamond : form < 2.5 ? cross : form < 3.5 ? hollow : frame;
  float cover = clamp(inside * size * 0.5, 0.0, 1.0);
  gl_FragColor = vec4(paint.rgb, 1.0) * paint.a * cover;
}`;

export function webglPoints(canvas) {
  const gl = canvas.getContext("webgl", { antialias: false, preserveDrawingBuffer: true });
  if (!gl) return null;
  const program = linked(gl);
  gl.useProgram(program);
  gl.enable(gl.BLEND);
  gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
  const buffers = { position: gl.createBuffer(), color: gl.createBuffer(), shape: gl.createBuffer() };
  const fill = (name, data, width, type, normalized) => {
    const place = gl.getAttribLocation(program, name);
    gl.bindBuffer(gl.ARRAY_BUFFER, buffers[name]);
    gl.bufferData(gl.ARRAY_BUFFER, data, gl.DYNAMIC_DRAW);
    gl.enableVertexAttribArray(place);
    gl.vertexAttribPointer(place, width, type, normalized, 0, 0);
  };
  const uniform = (name) => gl.getUniformLocation(program, name);
  return {
    positions: (data) => fill("position", data, 3, gl.FLOAT, false),
    colors: (data) => fill("color", data, 4, gl.UNSIGNED_BYTE, true),
    shapes: (data) => fill("shape", data, 1, gl.UNSIGNED_BYTE, false),
    draw(map, size, count, ratio) {
      gl.viewport(0, 0, canvas.width, canvas.height);
      gl.clearColor(0, 0, 0, 0);
      gl.clear(gl.COLOR_BUFFER_BIT);
      for (const name of ["across", "up", "depth"]) gl.uniform4fv(uniform(name), map[name]);
      gl.uniform1f(uniform("size"), size * ratio);
      gl.drawArrays(gl.POINTS, 0, count);
    },
  };
}

function linked(gl) {
  const program = gl.createProgram();
  for (const [kind, text] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, text);
    gl.compileShader(shader);
    if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS)) throw new Error(gl.getShaderInfoLog(shader));
    gl.attachShader(program, shader);
  }
  gl.linkProgram(program);
  if (!gl.getProgramParameter(program, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(program));
  return program;
}
