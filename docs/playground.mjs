// pyptx in Pyodide. The page (playground.md) and the test (tests/playground) call it; where packages come from is theirs to say.

const CALL = "from pyptx.tools import playground\nplayground.";

// A Pyodide in which pyptx can be imported. `packages`: of Pyodide's distribution; `wheels`: addresses of wheels or names on PyPI.
export async function boot(loadPyodide, { packages = [], wheels = [] } = {}, say = () => {}) {
  say("Loading Python ...");
  const pyodide = await loadPyodide();
  if (packages.length) await pyodide.loadPackage([...packages, "micropip"], { messageCallback: say });
  if (wheels.length) {
    say("Loading pyptx and xDSL ...");
    await pyodide.pyimport("micropip").install(wheels);
  }
  return pyodide;
}

export const check = (pyodide, text) => call(pyodide, "check", text);
export const run = (pyodide, text) => call(pyodide, "run", text);

function call(pyodide, name, text) {
  const globals = pyodide.toPy({ text });
  try {
    return pyodide.runPython(`${CALL}${name}(text)`, { globals });
  } finally {
    globals.destroy();
  }
}
